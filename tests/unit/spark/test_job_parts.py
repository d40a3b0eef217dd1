"""The plain parts of ``barnabas spark``'s jobs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from barnabas.model.config import parse_properties
from barnabas.spark.jobs import JobError
from barnabas.spark.jobs.audit import columns_of
from barnabas.spark.jobs.mirror import first_at_or_after
from barnabas.spark.jobs.profile import batched, shares
from barnabas.spark.jobs.project import make_project, run_project
from barnabas.wire.records import Record


def test_only_columns_that_an_expression_names_are_read() -> None:
    assert columns_of(["`partition`", "get_json_object(cast(value as string), '$.offsets')"]) == ["value", "partition"]
    assert columns_of(["headers[0].value", "offset"]) == ["value", "offset", "headers"]


def test_codecs_are_tried_on_batches_of_a_producers_size() -> None:
    records = [Record(n, n, None, b"x" * 90) for n in range(100)]
    groups = batched(records, 1000)
    assert [len(group) for group in groups] == [10] * 10
    assert [record for group in groups for record in group] == records
    tried = shares(groups)
    assert set(tried) == {"gzip", "snappy", "lz4", "zstd"}
    assert all(0 < share < 0.7 for share in tried.values())


def test_a_groups_offset_is_found_in_the_mirror_by_its_origin() -> None:
    # Target offset -> source offset; 3 and 7 are transaction markers, source offsets 12 and 13 were compacted away.
    origins = {0: 10, 1: 11, 2: 14, 4: 15, 5: 16, 6: 17}

    def origin_from(at: int) -> int | None:
        return next((origins[offset] for offset in range(at, 8) if offset in origins), None)

    found = {offset: first_at_or_after(offset, 0, 8, origin_from) for offset in (5, 10, 11, 12, 14, 15, 17, 18, 99)}
    assert found == {5: 0, 10: 0, 11: 1, 12: 2, 14: 2, 15: 3, 17: 6, 18: 7, 99: 7}


def test_an_example_project_is_made_in_an_empty_directory_only(tmp_path: Path) -> None:
    files = make_project(tmp_path / "p", "127.0.0.1:1")
    assert [str(file.relative_to(tmp_path / "p")) for file in files] == [
        "spark-pipeline.yml",
        "spark.conf",
        "transformations/orders.py",
        "fill.py",
        "README.md",
    ]
    compile(files[2].read_text(), "orders.py", "exec")
    assert '"127.0.0.1:1"' in files[2].read_text()
    with pytest.raises(JobError, match="not empty"):
        make_project(tmp_path / "p", "127.0.0.1:1")


def test_an_example_project_of_a_secured_cluster_names_the_file_and_no_secret(tmp_path: Path) -> None:
    client = tmp_path / "client.properties"
    client.write_text("security.protocol=SASL_SSL\nsasl.jaas.config=Module required username=u password=hunter2;\n")
    files = make_project(tmp_path / "p", "127.0.0.1:1", client)
    assert not [file for file in files if "hunter2" in file.read_text()]
    declared = files[2].read_text()
    options: dict[str, Any] = {}
    exec(
        declared[declared.index("CLIENT") : declared.index("spark =")],
        {"Path": Path, "parse_properties": parse_properties},
        options,
    )
    assert options["CLUSTER"] == {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.jaas.config": "Module required username=u password=hunter2;",
        "kafka.bootstrap.servers": "127.0.0.1:1",
    }
    compile(declared, "orders.py", "exec")
    assert f"-b 127.0.0.1:1 --command-config {client}" in files[4].read_text()


def test_a_pipeline_names_the_packages_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_project(tmp_path / "p", "127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(JobError, match=r"need yaml, .* pip install 'pyspark\[pipelines\]'"):
        run_project(tmp_path / "p", "local[2]")
