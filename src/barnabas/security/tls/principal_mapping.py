"""``ssl.principal.mapping.rules``: from a certificate's subject to a user's name (KIP-371, ``SslPrincipalMapper``).

Rules are tried in turn. ``RULE:pattern/replacement/[LU]`` applies if the whole subject matches; ``DEFAULT`` returns the
subject itself. A certificate that matches no rule is refused.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from barnabas.model.errors import ConfigError

_ONE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
# A rule is the shortest text that ends at a comma or at the end: so a rule may have commas in it.
_SPLIT: Final = re.compile(rf"\s*({_ONE})\s*(?:,\s*|$)")
_RULE: Final = re.compile(_ONE)
_PART: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}|([^\\$]+)", re.S)


class NoMatchingRule(ValueError):
    """No rule matches the subject: its certificate is refused."""


class _Rule(NamedTuple):
    pattern: re.Pattern[str]
    replacement: list[str | int]
    """Texts, and numbers of groups."""
    case: str

    def apply(self, name: str) -> str | None:
        if self.pattern.fullmatch(name) is None:
            return None
        # As Java's `replaceAll`, which replaces every match.
        result = self.pattern.sub(self._filled, name)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result

    def _filled(self, match: re.Match[str]) -> str:
        return "".join(part if isinstance(part, str) else match[part] or "" for part in self.replacement)


class SslPrincipalMapper:
    """Maps subjects to user names. Raises `ConfigError` for invalid rules."""

    def __init__(self, rules: str) -> None:
        self._rules: list[_Rule | None] = []
        for text in (match[1] for match in _SPLIT.finditer(rules.strip())):
            match = _RULE.match(text)
            if match is None or match.end() != len(text):
                raise _refused(text, "a rule is DEFAULT or RULE:pattern/replacement/[LU]")
            if match[1]:
                self._rules.append(None)
            elif match[2] is not None:
                pattern = _java_pattern(match[2], text)
                self._rules.append(_Rule(pattern, _parts(match[3], pattern, text), match[4]))

    def name_of(self, subject: str) -> str:
        """The user's name. Raises `NoMatchingRule`."""
        for rule in self._rules:
            name = subject if rule is None else rule.apply(subject)
            if name is not None:
                return name
        raise NoMatchingRule(f"no rule of ssl.principal.mapping.rules applies to {subject}")


def _refused(rule: str, reason: str) -> ConfigError:
    return ConfigError(f"ssl.principal.mapping.rules has {rule!r}: {reason}.")


def _java_pattern(text: str, rule: str) -> re.Pattern[str]:
    if "&&" in text:
        raise _refused(rule, "intersections of character classes (&&) are Java's alone")
    try:
        # Java's \\w, \\d and \\s know only ASCII.
        return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", text), re.ASCII)
    except re.error as error:
        raise _refused(rule, f"its pattern cannot be read ({error})") from None


def _parts(replacement: str, pattern: re.Pattern[str], rule: str) -> list[str | int]:
    """The parts of a Java replacement: ``$n`` is a group, as many digits as there are groups for; ``\\x`` is x.

    A ``$n`` beyond the groups stays as it is written, if the pattern has groups at all.
    """
    parts: list[str | int] = []
    position = 0
    while position < len(replacement):
        match = _PART.match(replacement, position)
        if match is None:
            raise _refused(rule, "a $ is followed by a group's number, or preceded by a backslash")
        position = match.end()
        escaped, digits, name, plain = match.groups()
        if digits:
            if not pattern.groups and digits[0] != "0":
                raise _refused(rule, f"its pattern has no group ${digits}")
            used = len(digits)
            while used > 1 and int(digits[:used]) > pattern.groups:
                used -= 1
            number = int(digits[:used])
            parts += [number if number <= pattern.groups else f"${digits[:used]}", digits[used:]]
        elif name:
            if name not in pattern.groupindex:
                raise _refused(rule, f"its pattern has no group {name}")
            parts.append(pattern.groupindex[name])
        else:
            parts.append(escaped or plain)
    return parts
