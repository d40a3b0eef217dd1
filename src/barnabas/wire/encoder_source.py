"""The source of a function that encodes one message in one version."""

from __future__ import annotations

from barnabas.wire.schema import Field, StructSchema, message_schema
from barnabas.wire.source import FORMATS, STRING_LENGTH_MAX, TURN_BYTES, Source
from barnabas.wire.structs import Struct


class EncoderSource(Source):
    def flush(self) -> None:
        if not self.run:
            return
        run, self.run = self.run, []
        self.add(f"w += {self.packed(run)}")

    def packed(self, run: list[tuple[str, str]]) -> str:
        pack, _ = self.packer("".join(code for code, _ in run), "pack")
        return f"{pack}({', '.join(expression for _, expression in run)})"

    def flush_with_varint(self, name: str) -> None:
        """Writes the pending values and an unsigned varint, which is nearly always one byte of the same run."""
        run, self.run = self.run, []
        if run:
            self.add(f"if {name} < 128: w += {self.packed([*run, ('B', name)])}")
            self.add("else:")
            self.add(f"    w += {self.packed(run)}")
            self.add(f"    write_varint(w, {name})")
        else:
            self.add(f"if {name} < 128: w.append({name})")
            self.add(f"else: write_varint(w, {name})")

    def length(self, field: Field, expression: str, long: bool, value: str, nullable: bool) -> None:
        if self.is_flexible(field):
            name = self.name("n")
            plus_one = f"{expression} + 1"
            self.add(f"{name} = " + (f"0 if {value} is None else {plus_one}" if nullable else plus_one))
            if field.type == "string" and not field.is_array:
                self.add(f'if {name} > {STRING_LENGTH_MAX + 1}: too_long("{field.attribute}", {name} - 1)')
            self.flush_with_varint(name)
        else:
            code = "i" if long else "h"
            self.run.append((code, f"-1 if {value} is None else {expression}" if nullable else expression))
            self.flush()

    def value(self, field: Field, path: str, nullable: bool) -> None:
        match field.type:
            case "string":
                text, encoded = self.name("v"), self.name("s")
                self.add(f"{text} = {path}")
                if nullable:
                    self.add(f'{encoded} = b"" if {text} is None else {text}.encode()')
                else:
                    self.add(f"{encoded} = {text}.encode()")
                self.length(field, f"len({encoded})", False, text, nullable)
                self.add(f"w += {encoded}")
            case "bytes":
                value = self.name("v")
                self.add(f"{value} = {path}")
                self.length(field, f"len({value})", True, value, nullable)
                self.add(f"if {value}: w += {value}")
            case "records":
                value = self.name("v")
                self.add(f"{value} = {path}")
                size = f"(sum(map(len, {value})) if type({value}) is list else len({value}))"
                self.length(field, size, True, value, nullable)
                self.add(f"if {value}:")
                self.add("    parts.append(w)")
                self.add(f"    if type({value}) is list: parts += {value}")
                self.add(f"    else: parts.append({value})")
                self.add("    w = bytearray()")
            case _ if field.is_struct:
                value = self.name("x")
                self.add(f"{value} = {path}")
                if nullable:
                    self.run.append(("b", f"-1 if {value} is None else 1"))
                    self.flush()
                    self.add(f"if {value} is not None:")
                    self.depth += 1
                    self.fields(self.struct(field), value)
                    self.flush()
                    self.depth -= 1
                else:
                    self.fields(self.struct(field), value)
            case _:
                self.run.append((FORMATS[field.type], path))

    def array(self, field: Field, path: str, nullable: bool) -> None:
        values = self.name("v")
        self.add(f"{values} = {path}")
        self.length(field, f"len({values})", True, values, nullable)
        if field.type in FORMATS:
            self.add(f"if {values}: w += write_{field.type}({values})")
            return
        element = self.name("e")
        self.add(f"for {element} in {values}{' or ()' if nullable else ''}:")
        self.depth += 1
        self.take_turns(written=True)
        self.value(field, element, nullable=False)
        self.flush()
        self.depth -= 1

    def any(self, field: Field, path: str) -> None:
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, path, nullable)
        else:
            self.value(field, path, nullable)

    def fields(self, struct_: StructSchema, path: str) -> None:
        """Writes a struct; its last fixed-width run is left pending."""
        tagged = []
        for field in struct_.fields:
            at = f"{path}.{field.attribute}"
            if self.version not in field.versions:
                if not field.ignorable:
                    self.add(
                        f"if {self.is_set(field, at)}: "
                        f'unsupported("{self.schema.name}", "{field.attribute}", {self.version})'
                    )
            elif self.version in field.tagged and self.flexible:
                tagged.append(field)
            else:
                self.any(field, at)
        if self.flexible:
            self.tagged_fields(path, tagged)
        elif self.schema.is_ever_flexible:
            self.add(
                f"if {path}.unknown_tagged_fields: "
                f'unsupported("{self.schema.name}", "unknown_tagged_fields", {self.version})'
            )

    def tagged_fields(self, path: str, known: list[Field]) -> None:
        unknown = f"{path}.unknown_tagged_fields"
        if not known:
            run, self.run = self.run, []
            self.add(f"if {unknown}:")
            if run:
                self.add(f"    w += {self.packed(run)}")
            self.add(f"    write_tagged(w, [], {unknown})")
            self.add("else: " + (f"w += {self.packed([*run, ('B', '0')])}" if run else "w.append(0)"))
            return
        conditions = [self.is_set(field, f"{path}.{field.attribute}") for field in known]
        run, self.run = self.run, []
        self.add(f"if {' or '.join([*conditions, unknown])}:")
        self.depth += 1
        if run:
            self.add(f"w += {self.packed(run)}")
        outer, found = self.name("w"), self.name("k")
        self.add(f"{found} = []")
        for field, condition in zip(known, conditions, strict=True):
            self.add(f"if {condition}:")
            self.depth += 1
            self.add(f"{outer} = w")
            self.add("w = bytearray()")
            self.any(field, f"{path}.{field.attribute}")
            self.flush()
            self.add(f"{found}.append(({field.tag}, w))")
            self.add(f"w = {outer}")
            self.depth -= 1
        self.add(f"write_tagged(w, {found}, {unknown})")
        self.depth -= 1
        self.add("else: " + (f"w += {self.packed([*run, ('B', '0')])}" if run else "w.append(0)"))


def encoder_source(cls: type[Struct], version: int, *, in_turns: bool = False) -> Source:
    schema = message_schema(cls.__name__)
    source = EncoderSource(schema, cls, version, in_turns=in_turns)
    source.lines.append("def encode(x, w, parts):")
    if in_turns:
        source.add(f"t, turn = 0, {TURN_BYTES}")
    source.fields(schema.root, "x")
    source.flush()
    source.add("return w")
    if in_turns:
        source.add("yield")
    return source
