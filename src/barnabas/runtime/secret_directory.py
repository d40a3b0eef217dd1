"""A directory of small files that only their owner may read: keys, passwords."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SecretDirectory:
    """Every method raises ``OSError``."""

    path: str

    def exists(self) -> bool:
        return os.path.exists(self.path)

    def make(self, files: Mapping[str, bytes]) -> None:
        """Creates the directory with all files, or nothing."""
        unfinished = SecretDirectory(f"{self.path}.tmp")
        shutil.rmtree(unfinished.path, ignore_errors=True)
        os.mkdir(unfinished.path, 0o700)
        for name, data in files.items():
            unfinished.write(name, data)
        os.rename(unfinished.path, self.path)

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def write(self, name: str, data: bytes) -> str:
        """Replaces the file's content by `data`; returns its path."""
        path = self.file(name)
        with open(os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        os.rename(f"{path}.tmp", path)
        return path

    def read(self, name: str) -> bytes:
        with open(self.file(name), "rb") as file:
            return file.read()
