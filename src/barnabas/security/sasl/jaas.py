"""JAAS as operators write it in ``sasl.jaas.config`` or in a file: login modules, each with its options.

``org.apache...PlainLoginModule required username="alice" password="s\\"ecret" user_bob="x";`` The grammar is that of
Kafka's ``JaasConfig``, which reads it with Java's ``StreamTokenizer``: words are letters, digits and ``. - _ $`` and
begin with no digit; quotes are double or single, with C's escapes; a slash begins a comment. A file has the same in
sections, ``KafkaServer { ... };`` (``sun.security.provider.ConfigFile``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

CONTROL_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""[\x00-\x20]+ | /\*.*?\*/ | /[^*\r\n][^\r\n]* | /(?=[\r\n]|\Z)
    | "(?P<double>(?:[^"\\\r\n]|\\.)*)" | '(?P<single>(?:[^'\\\r\n]|\\.)*)'
    | (?P<word>[A-Za-z_$\u00a0-\U0010ffff][A-Za-z0-9._$\u00a0-\U0010ffff-]*)
    | (?P<sign>[={};])""",
    re.X | re.S,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{0,2}|[0-7]{1,2}|.)", re.S)
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
DISALLOWED_LOGIN_MODULES: Final = "org.apache.kafka.disallowed.login.modules"
_DISALLOWED: Final = "com.sun.security.auth.module.JndiLoginModule,com.sun.security.auth.module.LdapLoginModule"
"""The modules that are disallowed by default: they connect to addresses in their options (CVE-2023-25194)."""


class LoginModule(NamedTuple):
    class_name: str
    control_flag: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"LoginModule({self.class_name!r}, {self.control_flag!r}, {sorted(self.options)})"

    @property
    def text(self) -> str:
        """The text that `login_module` reads."""
        options = "".join(f" {name}={_quoted(value)}" for name, value in self.options.items())
        return f"{self.class_name} {self.control_flag}{options};"


class _Token(NamedTuple):
    text: str
    sign: bool
    position: int


def login_module(text: str, disallowed: str | None = None) -> LoginModule:
    """The login module in a ``sasl.jaas.config``; `disallowed` is the value of `DISALLOWED_LOGIN_MODULES`, if set.

    Raises ``ValueError``, whose text has no option's value.
    """
    found = login_modules(text)
    if len(found) != 1:
        raise ValueError(f"it contains {len(found)} login modules, it takes 1")
    refused = (_DISALLOWED if disallowed is None else disallowed).split(",")
    if found[0].class_name in map(str.strip, refused):
        raise ValueError(f"{found[0].class_name} is not allowed, by {DISALLOWED_LOGIN_MODULES}")
    return found[0]


def login_modules(text: str) -> tuple[LoginModule, ...]:
    """Raises ``ValueError``."""
    tokens = _tokens(text)
    modules: list[LoginModule] = []
    while tokens:
        modules.append(_module(tokens))
    if not modules:
        raise ValueError("it names no login module")
    return tuple(modules)


def jaas_sections(text: str) -> dict[str, tuple[LoginModule, ...]]:
    """The login modules of a JAAS file, by section. Raises ``ValueError``, whose text has no option's value."""
    tokens = _tokens(text)
    sections: dict[str, tuple[LoginModule, ...]] = {}
    while tokens:
        name = _next(tokens, "a section's name")
        if name in sections:
            raise ValueError(f"section {name} is there twice")
        _sign(tokens, "{", f"behind {name}")
        modules: list[LoginModule] = []
        while not (tokens and tokens[0].sign and tokens[0].text == "}"):
            modules.append(_module(tokens))
        _sign(tokens, "}", f"at the end of {name}")
        _sign(tokens, ";", f"behind the end of {name}")
        for option, value in (option for module in modules for option in module.options.items()):
            if "${" in value:
                raise ValueError(f"option {option} in section {name} asks for a Java property, which nobody has here")
        sections[name] = tuple(modules)
    return sections


def _sign(tokens: list[_Token], text: str, where: str) -> None:
    if not tokens or not (tokens[0].sign and tokens[0].text == text):
        raise ValueError(f"it needs {text} {where}")
    tokens.pop(0)


def _module(tokens: list[_Token]) -> LoginModule:
    """Takes the first module off `tokens`."""
    class_name = _next(tokens, "a login module's class")
    flag = _next(tokens, f"a control flag behind {class_name}: one of {', '.join(CONTROL_FLAGS)}")
    if flag.lower() not in CONTROL_FLAGS:
        raise ValueError(f"{flag!r} is no control flag: it takes one of {', '.join(CONTROL_FLAGS)}")
    options: dict[str, str] = {}
    while tokens:
        if tokens[0].sign and tokens[0].text == ";":
            tokens.pop(0)
            return LoginModule(class_name, flag.lower(), MappingProxyType(options))
        name = _next(tokens, "an option's name or a semicolon")
        if not tokens or not (tokens[0].sign and tokens[0].text == "="):
            raise ValueError(f"option {name} has no value: {name}=")
        tokens.pop(0)
        options[name] = _next(tokens, f"a value for option {name}")
    raise ValueError(f"{class_name} does not end with a semicolon")


def _next(tokens: list[_Token], expected: str) -> str:
    if not tokens or tokens[0].sign:
        where = f"at character {tokens[0].position}" if tokens else "at its end"
        raise ValueError(f"it needs {expected}, {where}")
    return tokens.pop(0).text


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(
                f"it cannot be read from character {position} on: quotes that do not end, or a value that needs some"
            )
        if match["word"] is not None:
            tokens.append(_Token(match["word"], False, position))
        elif match["sign"] is not None:
            tokens.append(_Token(match["sign"], True, position))
        else:
            quoted = match["double"] if match["double"] is not None else match["single"]
            if quoted is not None:
                tokens.append(_Token(_ESCAPE.sub(_unescaped, quoted), False, position))
        position = match.end()
    return tokens


def _quoted(text: str) -> str:
    for character, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(character, escape)
    return f'"{text}"'


def _unescaped(match: re.Match[str]) -> str:
    escape = match[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _ESCAPED.get(escape, escape)
