"""The source of a function that decodes one message in one version.

The function reads nothing beyond `end`, the end of the buffer: ``struct`` checks fixed widths, every length is checked
before its use, and an array's length against the least number of bytes of so many elements.
"""

from __future__ import annotations

from barnabas.wire.schema import Field, StructSchema, message_schema
from barnabas.wire.source import (
    FORMATS,
    NUMBERS_IN_AN_ELEMENT,
    STRING_LENGTH_MAX,
    TAGGED_FIELDS_MAX,
    Source,
    least_size,
)
from barnabas.wire.structs import Struct


class DecoderSource(Source):
    def flush(self) -> None:
        if not self.run:
            return
        codes = "".join(code for code, _ in self.run)
        targets = [target for _, target in self.run]
        self.run = []
        if codes == "B":
            self.add(f"{targets[0]} = b[o]")
            self.add("o += 1")
            return
        unpack, size = self.packer(codes, "unpack_from")
        self.add(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(b, o)")
        self.add(f"o += {size}")

    def length(self, field: Field, long: bool) -> str:
        """Reads a length into a new name: -1 (or less) is null."""
        name = self.name("n")
        if self.is_flexible(field):
            self.run.append(("B", name))
            self.flush()
            if field.type == "records":  # most records' lengths take two bytes
                self.add(f"if {name} > 127:")
                self.add("    m = b[o]")
                self.add(f"    if m < 128: {name}, o = {name} + (m - 1) * 128, o + 1")
                self.add(f"    else: {name}, o = rest(b, o, {name})")
            else:
                self.add(f"if {name} > 127: {name}, o = rest(b, o, {name})")
            self.add(f"{name} -= 1")
        else:
            self.run.append(("i" if long else "h", name))
            self.flush()
        return name

    def spend(self, count: str, field: str) -> None:
        if self.in_turns:
            self.add(f"left -= {count}")
            self.add(f'if left < 0: too_many("{field}", {count})')

    def value(self, field: Field, target: str, nullable: bool) -> None:
        """Reads one value, an element if the field is an array, into `target`."""
        match field.type:
            case "uuid":
                raw = self.name("r")
                self.run.append(("16s", raw))
                self.flush()
                self.add(f"{target} = new_uuid(Uuid, {raw})")
            case "string" | "bytes" | "records":
                self.stretch(field, target, nullable)
            case _ if field.is_struct:
                if nullable:
                    present = self.name("n")
                    self.run.append(("b", present))
                    self.flush()
                    self.add(f"if {present} < 0: {target} = None")
                    self.add("else:")
                    self.depth += 1
                    self.add(f"{target} = {self.fields(self.struct(field))}")
                    self.depth -= 1
                else:
                    self.add(f"{target} = {self.fields(self.struct(field))}")
            case _:
                self.run.append((FORMATS[field.type], target))

    def stretch(self, field: Field, target: str, nullable: bool) -> None:
        length = self.length(field, long=field.type != "string")
        stop = self.name("p")
        if nullable:
            self.add(f"if {length} < 0: {target} = None")
            self.add("else:")
            self.depth += 1
        self.add(f"{stop} = o + {length}")
        limits = [] if nullable else [f"{length} < 0"]
        limits.append(f"{stop} > end")
        if field.type == "string" and self.is_flexible(field):
            limits.append(f"{length} > {STRING_LENGTH_MAX}")
        self.add(f'if {" or ".join(limits)}: bad_length("{field.attribute}", {length}, end - o)')
        match field.type:
            case "string":
                # As Java's String does: a client id in Latin-1 must not end the connection.
                self.add(f'{target} = b[o:{stop}].decode("utf-8", "replace")')
            case "bytes":
                # A copy: the field is short, and a view would keep the whole frame alive.
                self.add(f"{target} = bytes(b[o:{stop}])")
            case _:
                self.add(f"{target} = view(b)[o:{stop}]")
        self.add(f"o = {stop}")
        if nullable:
            self.depth -= 1

    def array(self, field: Field, target: str, nullable: bool) -> None:
        count = self.length(field, long=True)
        if nullable:
            self.add(f"if {count} < 0: {target} = None")
            self.add("else:")
            self.depth += 1
        size = least_size(self.schema, field, self.version)
        needed = count if size == 1 else f"{count} * {size}"
        limits = ([] if nullable else [f"{count} < 0"]) + [f"{needed} > end - o"]
        self.add(f'if {" or ".join(limits)}: bad_length("{field.attribute}", {needed}, end - o)')
        numbers = field.type in FORMATS and field.type != "uuid"
        self.spend(f"{count} // {NUMBERS_IN_AN_ELEMENT}" if numbers else count, field.attribute)
        if field.type in FORMATS:
            self.add(f"{target} = read_{field.type}(b, o, {count})")
            self.add(f"o += {needed}")
        else:
            elements = self.name("a")
            element = self.name("e")
            self.add(f"{target} = {elements} = []")
            numbers_alone = self.numbers_alone(field)
            if numbers_alone:
                self.run_of_structs(field, numbers_alone, elements, needed)
                count = f"{count} - len({elements})"
            self.add(f"for _ in range({count}):")
            self.depth += 1
            self.take_turns()
            self.value(field, element, nullable=False)
            self.flush()
            self.add(f"{elements}.append({element})")
            self.depth -= 1
        if nullable:
            self.depth -= 1

    def numbers_alone(self, field: Field) -> list[Field]:
        """The fields of an array's structs, if the version has only numbers in them: all are of one length."""
        if not field.is_struct:
            return []
        there = [
            inner
            for inner in self.struct(field).fields
            if self.version in inner.versions and self.version not in inner.tagged
        ]
        plain = all(inner.type in FORMATS and inner.type != "uuid" and not inner.is_array for inner in there)
        return there if plain else []

    def run_of_structs(self, field: Field, numbers: list[Field], elements: str, needed: str) -> None:
        """Reads the array's structs up to the first one that has tagged fields."""
        element, row, tags = self.name("x"), self.name("r"), self.name("t")
        unpack, size = self.packer(
            "".join(FORMATS[inner.type] for inner in numbers) + "B" * self.flexible, "iter_unpack"
        )
        self.add(f"for {row} in {unpack}(view(b)[o:o + {needed}]):")
        self.depth += 1
        self.take_turns()
        self.add(f"{element} = new(C_{field.type})")
        targets = [f"{element}.{inner.attribute}" for inner in numbers] + [tags] * self.flexible
        self.add(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {row}")
        if self.flexible:
            self.add(f"if {tags}: break")
        for inner in self.struct(field).fields:
            if inner not in numbers:
                self.add(f"{element}.{inner.attribute} = {self.default(inner)}")
        if self.schema.is_ever_flexible:
            self.add(f"{element}.unknown_tagged_fields = None")
        self.add(f"{elements}.append({element})")
        self.depth -= 1
        self.add(f"o += len({elements}) * {size}")

    def any(self, field: Field, target: str) -> None:
        nullable = self.version in field.nullable
        if field.is_array:
            self.array(field, target, nullable)
        else:
            self.value(field, target, nullable)

    def fields(self, struct_: StructSchema) -> str:
        """Reads a struct into a new object and returns its name; nothing is left pending."""
        target = self.name("x")
        self.add(f"{target} = new(C_{struct_.name})")
        tagged = []
        for field in struct_.fields:
            if self.version in field.versions and self.version not in field.tagged:
                self.any(field, f"{target}.{field.attribute}")
                continue
            self.add(f"{target}.{field.attribute} = {self.default(field)}")
            if self.version in field.versions and self.flexible:
                tagged.append(field)
        if self.schema.is_ever_flexible:
            self.add(f"{target}.unknown_tagged_fields = None")
        if self.flexible:
            self.tagged_fields(target, tagged)
        self.flush()
        return target

    def tagged_fields(self, target: str, known: list[Field]) -> None:
        count, tag, size, stop, unknown = (self.name(prefix) for prefix in "ntspk")
        self.run.append(("B", count))
        self.flush()
        if not known:
            self.add(f"if {count}:")
            self.depth += 1
            self.add(f"{target}.unknown_tagged_fields, o = unknown_tagged(b, o, {count})")
            self.spend(f"len({target}.unknown_tagged_fields)", "tagged fields")
            self.depth -= 1
            return
        self.add(f"if {count}:")
        self.depth += 1
        self.add(f"if {count} > 127: {count}, o = rest(b, o, {count})")
        self.add(f'if {count} > {TAGGED_FIELDS_MAX}: too_many("tagged fields", {count})')
        self.spend(count, "tagged fields")
        self.add(f'if {count} * 2 > end - o: bad_length("tagged fields", {count} * 2, end - o)')
        self.add(f"{unknown} = []")
        self.add(f"for _ in range({count}):")
        self.depth += 1
        self.add(f"{tag}, o = read_varint(b, o)")
        self.add(f"{size}, o = read_varint(b, o)")
        self.add(f"{stop} = o + {size}")
        self.add(f'if {stop} > end: bad_length("a tagged field", {size}, end - o)')
        for field in known:
            self.add(f"if {tag} == {field.tag}:")
            self.depth += 1
            self.any(field, f"{target}.{field.attribute}")
            self.flush()
            self.add(f'if o != {stop}: bad_tag("{field.attribute}", {size}, o - {stop} + {size})')
            self.add("continue")
            self.depth -= 1
        self.add(f"{unknown}.append(({tag}, bytes(b[o:{stop}])))")
        self.add(f"o = {stop}")
        self.depth -= 1
        self.add(f"if {unknown}: {target}.unknown_tagged_fields = {unknown}")
        self.depth -= 1


def decoder_source(cls: type[Struct], version: int, *, in_turns: bool = False) -> Source:
    schema = message_schema(cls.__name__)
    source = DecoderSource(schema, cls, version, in_turns=in_turns)
    source.lines.append("def decode(b, o, end, left):" if in_turns else "def decode(b, o, end):")
    if in_turns:
        source.add("t = 0")
    source.add(f"return {source.fields(schema.root)}, o")
    if in_turns:
        source.add("yield")  # never reached: it makes a generator also for a message without an array
    return source
