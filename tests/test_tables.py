"""Tables: what is written is read back, and every broken file is refused in one sentence."""

import gzip
import sys
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpum.app.tables import labelled, tables
from gpum.app.tables.labels import LabelFile, Line, beside, row_checks

ENDINGS = [".csv", ".tsv", ".npz", ".parquet"]
ADVICE = "or remove the row"


def save(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read_back(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    numbers = np.array([0.1, -1e-300, 12345678.9, 1 / 3])
    columns = {"file": ["a", "b,c", 'd"e', "ü\n"], "x": numbers, "far": np.array([True, False, True, True])}
    tables.write(tmp_path / f"t{ending}", columns)
    table = tables.read(tmp_path / f"t{ending}")
    assert list(table.columns) == ["file", "x", "far"]
    assert table.text("file") == columns["file"]
    assert np.array_equal(table.numbers("x", ADVICE), numbers)
    assert table.numbers("far", ADVICE).tolist() == [1, 0, 1, 1]
    assert [p.name for p in tmp_path.iterdir()] == [f"t{ending}"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
@settings(max_examples=50, deadline=None)
def test_text_keeps_every_bit_of_a_number(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("bits") / "t.csv"
    tables.write(path, {"x": np.array(values)})
    assert tables.read(path).numbers("x", ADVICE).tobytes() == np.array(values).tobytes()


def test_text_as_people_write_it(tmp_path):
    windows = save(tmp_path / "a.csv", "\ufeff a ;b\r\n1.5;\r\n\r\n 2 ;NA\r\n3e-2;7\r\n")
    table = tables.read(windows)
    assert list(table.columns) == ["a", "b"]
    assert table.numbers("a", ADVICE).tolist() == [1.5, 2, 0.03]
    assert np.isnan(table.numbers("b", ADVICE)).tolist() == [True, True, False]
    assert table.row_name(1) == "row 2 (line 4)"
    assert tables.read(save(tmp_path / "b.TSV", "a,b\tc\n1\t2\n")).numbers("a,b", ADVICE).tolist() == [1]


def test_decimal_commas_and_encodings(tmp_path):
    read = lambda content, **how: tables.read(save(tmp_path / "t.csv", content), **how)
    assert read("a;b,c\n1,5;-2,5e3\n", decimal=",").matrix(["a", "b,c"], ADVICE).tolist() == [[1.5, -2500]]
    assert read('a,b\n"1,5",2\n', decimal=",").matrix(["a", "b"], ADVICE).tolist() == [[1.5, 2]]
    with pytest.raises(ValueError, match=r"is '1\.5', which is not a number"):
        read("a;b\n1.5;2\n", decimal=",").numbers("a", ADVICE)
    for encoding in ("latin-1", "cp1252", "utf-16"):
        assert list(read("größe,b\n1,2\n".encode(encoding), encoding=encoding).columns) == ["größe", "b"]
    for how, message in [
        ({"decimal": ";"}, "decimal is ';'"),
        ({"encoding": "zip"}, "not known"),
        ({"encoding": "ascii"}, "not ASCII text"),
    ]:
        with pytest.raises(ValueError, match=message):
            read("ö\n1", **how)
    np.savez(tmp_path / "t.npz", a=[1.0])
    with pytest.raises(ValueError, match="leave it out"):
        tables.read(tmp_path / "t.npz", encoding="latin-1")


def test_words_are_distinguished_from_numbers(tmp_path):
    table = tables.read(save(tmp_path / "t.csv", "a,b,c,d\ncat,1,,x\n NA ,cat,,2\ndog,2,,y\n"))
    assert [table.words(name) for name in "abcd"] == [["NA", "cat", "dog"], [], [], []]
    mixed = tables.Table("t", {"a": np.array([np.nan, "cat"], object), "b": np.array([np.nan, True], object)})
    assert [mixed.words(name) for name in "ab"] == [["cat"], []]


def test_npz_made_to_do_harm(tmp_path):
    """Announced sizes are checked before memory is taken, and nothing is unpickled."""
    import io
    import zipfile

    def write(**members):
        with zipfile.ZipFile(tmp_path / "t.npz", "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in members.items():
                archive.writestr(f"{name}.npy", content)

    def npy(dtype, shape, numbers=b""):
        header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode()
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + numbers

    pickled = io.BytesIO()
    np.lib.format.write_array(pickled, np.array([print], object), allow_pickle=True)
    for content, message in [
        (npy("<f8", (10**13,)), "announces float64"),
        (npy("<f8", (-8,)), "announces float64"),
        (npy("<U1", (1,), b"\xff" * 4), "is no text"),
        (npy("<U0", (5,)), "array of type"),
        (pickled.getvalue(), "array of type object"),
        (b"\x93NUMPY\x09\x00", "no sound header"),
    ]:
        write(a=content)
        with pytest.raises(ValueError, match=message):
            tables.read(tmp_path / "t.npz")


def test_an_encrypted_npz(tmp_path):
    np.savez(tmp_path / "t.npz", a=[1.0])
    data = bytearray((tmp_path / "t.npz").read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1
    with pytest.raises(ValueError, match="it is encrypted"):
        tables.read(save(tmp_path / "t.npz", bytes(data)))


def test_missing_values_of_parquet(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"a": [1, None, 3], "b": ["x", None, ""], "__index_level_0__": [5, 6, 7]})
    parquet.write_table(table, tmp_path / "t.parquet")
    found = tables.read(tmp_path / "t.parquet")
    assert list(found.columns) == ["a", "b"]
    assert np.isnan(found.numbers("a", ADVICE)).tolist() == [False, True, False]


def test_npz_layouts(tmp_path):
    X = np.arange(6.0).reshape(3, 2)
    path = tmp_path / "t.npz"
    np.savez(path, S=X, y=X[:, 0], splits=np.zeros((20, 3)), name=np.array(["a", "b", "c"]), scale=np.ones(7))
    table = tables.read(path)
    assert list(table.columns) == ["S_1", "S_2", "y", "name"]
    assert np.array_equal(table.matrix(["S_2", "S_1"], ADVICE), X[:, ::-1])
    assert table.text("name") == ["a", "b", "c"]
    np.savez(path, X=X, y=X, feature_names=["u", "v"], target_names=["s", "t"])
    assert list(tables.read(path).columns) == ["u", "v", "s", "t"]
    np.savez(path, a=[1, 2], b=[0.5, np.nan])
    assert np.isnan(tables.read(path).numbers("b", ADVICE)).tolist() == [False, True]


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.ones((3, 2)), "S": np.ones((3, 2))}, "both X and S"),
        ({"X": np.ones(3)}, "X has shape"),
        ({"X": np.ones((3, 2)), "y": np.ones(4)}, "y has 4 rows, but the other columns have 3"),
        ({"X": np.ones((3, 2)), "feature_names": ["a"]}, "2 columns, but 1 names"),
        ({"a": np.ones(3), "b": np.ones(4)}, "b has 4 rows"),
        ({"a": np.ones((3, 2))}, "no X or S"),
        ({"a": np.array([None, 1])}, "save arrays of numbers or text"),
        ({"X": np.ones((3, 1)), "X_1": np.ones(3)}, "more than one column 'X_1'"),
        ({"X": np.ones((0, 2))}, "no rows"),
        ({"a": np.zeros(2, complex)}, "array of type complex128"),
    ],
)
def test_npz_that_is_no_table(tmp_path, arrays, message):
    np.savez(tmp_path / "t.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        tables.read(tmp_path / "t.npz")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "\n \n", "is empty"),
        ("t.csv", "a,b\n", "header but no rows"),
        ("t.csv", "# by hand\n# 2024\na,b\n1,2\n", "has 1 cell, but line 3 has 2; remove the lines above the one"),
        ("t.csv", b"a,b\n1,2\n\xff,3\n", "not UTF-8 text .line 3."),
        ("t.csv", 'a,b\n"1,2\n', "check its quotes"),
        ("t.ods", "a", "ends in '.ods', .*; save the table as CSV"),
        ("t.npz.gz", "a", "ends in '.npz.gz'"),
        ("table", "a", "has no ending"),
        ("t.npz", "a,b\n", "not an NPZ file"),
    ],
)
def test_broken_files(tmp_path, name, content, message):
    with pytest.raises(ValueError, match=message):
        tables.read(save(tmp_path / name, content))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (
            "abc",
            r"column 'a' of t.csv, row 2 \(line 3\), is 'abc', which is not a number; correct it, or remove the row",
        ),
        ("1_000", "is '1_000', which is not a number"),
        ('"1,5"', "if the comma is the decimal mark, name it"),
        ("inf", "is infinite"),
        ("", "has no value; fill it in"),
    ],
)
def test_cells_that_are_no_numbers(tmp_path, cell, message):
    table = tables.read(save(tmp_path / "t.csv", f"a,b\n1,2\n{cell},3\n"))
    with pytest.raises(ValueError, match=message):
        table.matrix(["b", "a"], ADVICE)


def test_files_that_are_not_there(tmp_path):
    save(tmp_path / "data.csv", "a\n1\n")
    with pytest.raises(FileNotFoundError, match=r"did you mean .*data\.csv"):
        tables.read(tmp_path / "dat.csv")
    with pytest.raises(FileNotFoundError, match="check the name"):
        tables.read(tmp_path / "nowhere" / "x.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder without pictures"):
        tables.read(tmp_path / "folder.csv")


def test_parquet_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ValueError, match=r"pip install 'gpum\[app\]'"):
        tables.read(save(tmp_path / "t.parquet", "x"))


def test_a_broken_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="not a Parquet file"):
        tables.read(save(tmp_path / "t.parquet", "PAR1 and no more"))


def test_an_npz_of_several_disks_is_refused(tmp_path):
    """The end of the archive says that it goes on elsewhere, which zipfile notices before it has opened anything."""
    path = tmp_path / "m.npz"
    np.savez(path, a=np.zeros(3))
    data, end = path.read_bytes(), b"PK\x05\x06"
    locator = b"PK\x06\x07" + bytes([7, 0, 0, 0]) + bytes(8) + bytes([9, 0, 0, 0])
    path.write_bytes(data.replace(end, locator + end))
    with pytest.raises(ValueError, match="is not an NPZ file, or damaged"):
        tables.read(path)


def test_a_byte_order_mark_names_the_encoding(tmp_path):
    for encoding in ("utf-8-sig", "utf-16", "utf-32", "utf-16-be"):
        mark = "\ufeff" if encoding == "utf-16-be" else ""
        table = tables.read(save(tmp_path / "t.csv", f"{mark}größe;b\n1;2\n".encode(encoding)))
        assert list(table.columns) == ["größe", "b"], encoding
    for content, message in [
        ("a,b\n1,2\n".encode("utf-16-le"), "--encoding utf-16"),
        ("ä,b\n1,2\n".encode("utf-16-le"), "--encoding utf-16"),
        (b"PK\x03\x04\x14\x00\x06", "a zip file, as Excel workbooks are; save the table as CSV"),
    ]:
        with pytest.raises(ValueError, match=message):
            tables.read(save(tmp_path / "t.csv", content))


@pytest.mark.parametrize("name", ["t.txt", "t.csv.gz", "T.TSV.GZ", "t.txt.gz"])
def test_text_files_and_compressed_ones(tmp_path, name):
    columns = {"a": np.array([0.5, 2.0]), "b": ["x,y", "z\tz"]}
    tables.write(tmp_path / name, columns)
    table = tables.read(tmp_path / name)
    assert table.numbers("a", ADVICE).tolist() == [0.5, 2.0]
    assert table.text("b") == columns["b"]
    plain = tmp_path / name.lower().removesuffix(".gz")
    if plain.name.endswith((".txt", ".csv")):
        for mark in ",;\t":
            text = f"a{mark}b\n1{mark}2\n".encode()
            save(tmp_path / name, gzip.compress(text) if name.endswith("gz") else text)
            assert tables.read(tmp_path / name).numbers("b", ADVICE).tolist() == [2]


def test_compressed_files_made_to_do_harm(tmp_path, monkeypatch):
    path = tmp_path / "t.csv.gz"
    whole = gzip.compress(b"a,b\n" + b"1,2\n" * 5000)
    for content, message in [
        (whole[: len(whole) // 2], "is not a gzip file, or damaged"),
        (b"a,b\n1,2\n", "is not a gzip file, or damaged"),
        (whole[:20] + b"\xff" * 9 + whole[29:], "is not a gzip file, or damaged"),
    ]:
        with pytest.raises(ValueError, match=message):
            tables.read(save(path, content))
    save(path, whole)
    assert len(tables.read(path)) == 5000
    monkeypatch.setattr("gpum.app.tables.delimited.ROOM", 0)
    monkeypatch.setattr("gpum.app.tables.delimited.EXPANDS", 2)
    with pytest.raises(ValueError, match="unpacks to more than 2 times its size"):
        tables.read(path)


def test_the_separator_is_not_sought_within_quotes(tmp_path):
    assert list(tables.read(save(tmp_path / "t.csv", '"x, y, z";b\n1;2\n')).columns) == ["x, y, z", "b"]


def test_columns_without_a_name_and_without_a_value_are_none(tmp_path):
    """As spreadsheets write them, with separators at the ends of the lines."""
    assert list(tables.read(save(tmp_path / "t.csv", "a;b;;\n1;2;; \n")).columns) == ["a", "b"]
    assert list(tables.read(save(tmp_path / "t.csv", "a;b;\n1;2;3\n")).columns) == ["a", "b", "column 3"]


def test_columns_are_named_by_their_place(tmp_path):
    """Those without a name, as pandas writes its index, and those that have the name of another."""
    table = tables.read(save(tmp_path / "t.csv", ",a,a,a (2),a\n1,2,3,4,5\n"))
    assert list(table.columns) == ["column 1", "a", "a (3)", "a (2)", "a (4)"]
    assert [column[0] for column in table.columns.values()] == list("12345")
    assert "one without a name is 'column 1'; a second 'a' is 'a (3)'" in table.advice
    assert tables.read(save(tmp_path / "t.csv", "a,b\n1,2\n")).advice is None
    with pytest.raises(ValueError, match="holds numbers instead of names"):
        tables.read(save(tmp_path / "t.csv", "1,1\n2,3\n"))


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_empty_lines_are_left_out(tmp_path, mark):
    """Also those of separators alone, and the line in which Excel names its separator."""
    text = mark.join("ab") + "\n" + mark.join("12") + "\n" + mark + "\n" + mark.join("34") + "\n" + mark * 2
    plain = tables.read(save(tmp_path / "t.csv", f"sep={mark}\n{mark}\n\n{text[:-2]}"))
    assert {name: column.tolist() for name, column in plain.columns.items()} == {"a": ["1", "3"], "b": ["2", "4"]}
    assert plain.lines == [5, 7]
    assert tables.read(save(tmp_path / "t.csv", 'a\n1\n""\n')).columns["a"].tolist() == ["1", ""]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0.5,0.5,1\n1,2,3\n", "the first line of .* holds numbers instead of names; add a line with the names"),
        ("0.5,,1\n1,2,3\n", "the first line of .* holds numbers instead of names"),
        ("made by me\na,b\n1,2\n3,4\n", "the first line of .* has 1 cell, but every other line has 2; it must hold"),
        ("a,b\n1,2\n3\n", "line 3, has 1 cell, but the header has 2"),
    ],
)
def test_headers_that_are_none(tmp_path, content, message):
    with pytest.raises(ValueError, match=message):
        tables.read(save(tmp_path / "t.csv", content))


@pytest.mark.parametrize(
    ("cell", "decimal", "message"),
    [
        ("1,000", ".", "if the comma is the decimal mark, name it .*; if it marks thousands, write 1000"),
        ("1,000.5", ".", r"write it without marks of thousands, 1000\.5"),
        ("1,234,567", ".", "write it without marks of thousands, 1234567"),
        ("1 234", ".", "write it without marks of thousands, 1234"),
        ("1.234,5", ",", "write it without marks of thousands, 1234,5"),
        ("1.5", ",", "if the point is the decimal mark, do not name the comma"),
        ("12%", ".", "write the number alone, without '%'"),
        ("1.5 cm", ".", "write the number alone, without 'cm'"),
        ("1,5 €", ",", "write the number alone, without '€'"),
    ],
)
def test_numbers_with_something_around_them(tmp_path, cell, decimal, message):
    table = tables.read(save(tmp_path / "t.csv", f'a;b\n"{cell}";2\n'), decimal=decimal)
    with pytest.raises(ValueError, match=f"is '{cell}', which is not a number; {message}"):
        table.numbers("a", ADVICE)


def test_categories_of_parquet_with_missing_values(tmp_path):
    """A missing category is no category; truth values with gaps are numbers."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    kinds = pyarrow.array(["a", None, "b", "a"]).dictionary_encode()
    parquet.write_table(pyarrow.table({"k": kinds, "ok": [True, None, False, True]}), tmp_path / "t.parquet")
    table = tables.read(tmp_path / "t.parquet")
    assert list(table.columns["k"]) == ["a", None, "b", "a"]
    assert table.words("k") == ["a", "b"]
    assert table.words("ok") == []
    np.testing.assert_array_equal(table.numbers("ok", ADVICE), [1, np.nan, 0, 1])


def test_dates_of_parquet_are_text(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    days = np.array(["2024-01-01", "2024-01-02", "NaT"], "datetime64[ns]")
    parquet.write_table(pyarrow.table({"day": days, "span": days - days[0]}), tmp_path / "t.parquet")
    table = tables.read(tmp_path / "t.parquet")
    assert [cell[:10] for cell in table.text("day")] == ["2024-01-01", "2024-01-02", ""]
    assert table.text("span")[1].endswith("seconds")
    assert len(table.words("day")) == 2


def test_labels_go_back_into_text_of_any_encoding(tmp_path):
    """Byte order mark, encoding, line ends and a header with commas in quotes stay as they are."""
    path = tmp_path / "t.txt"
    header, lines = '"x, y, z";"b";"größe"', ["1;2;", "3;4;", "5;6;"]
    for encoding in ("utf-16-le", "utf-16-be", "utf-8"):
        save(path, "\r\n".join(["\ufeff" + header, *lines, ""]).encode(encoding))
        file, checks = LabelFile(beside(path)), row_checks(tables.read(path).matrix(["x, y, z", "b"], ""))
        file.add(Line("columns1", "columns", "", value='["x, y, z", "b"]'))
        file.add(Line("id-number-1", "label", "größe", 1, "2", "7.5", checks[1]))
        assert labelled.export(path, "größe") == 1
        assert path.read_bytes() == "\r\n".join(["\ufeff" + header, "1;2;", "3;4;7.5", "5;6;", ""]).encode(encoding)
        beside(path).unlink()


@pytest.mark.parametrize("ending", [*ENDINGS, ".csv.gz"])
def test_blocks_are_the_table(tmp_path, monkeypatch, ending):
    """Written and read three rows at a time, it is the table that is written and read at once."""
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(tables, "ROWS", 3)
    columns = {"name": [f"r{k}\n" for k in range(8)], "x": np.arange(8) / 3, "far": np.arange(8) % 2 == 0}
    path, once = tmp_path / f"t{ending}", tmp_path / f"once{ending}"
    with tables.writing(path) as add:
        for begin in (0, 5):
            add({name: column[begin : begin + 5] for name, column in columns.items()})
    tables.write(once, columns)
    for file in (path, once):
        found = list(tables.blocks(file))
        assert (len(found[0]), found[0].first) == (3, 0)
        assert max(len(block) for block in found) == 3
        assert [name for block in found for name in block.text("name")] == columns["name"]
        assert np.array_equal(np.concatenate([block.numbers("x", "") for block in found]), columns["x"])
        last = found[-1]
        assert last.row_name(len(last) - 1).split(" (")[0] == "row 8"
        assert last.lines is None or last.lines == tables.read(file).lines[-len(last) :]
    if ending.startswith((".csv", ".tsv")):
        assert path.read_bytes() == once.read_bytes()


def test_a_block_is_read_when_it_is_taken(tmp_path, monkeypatch):
    """What is wrong further down is an error when that block is taken, with the number of its row and line."""
    monkeypatch.setattr(tables, "ROWS", 3)
    good = "a,b\n" + "1,2\n" * 6
    for rest, words in {
        "1,2,3\n": "line 8, has 3 cells",
        '"x': "line 8, cannot be read",
        b"\xff,1\n": r"is not UTF-8 text \(line 8\)",
        "\0,1\n": "holds zero bytes",
    }.items():
        path = save(tmp_path / "t.csv", good.encode() + (rest if isinstance(rest, bytes) else rest.encode()))
        with pytest.raises(ValueError, match=words):
            list(tables.blocks(path))
    blocks = tables.blocks(save(tmp_path / "t.csv", good + "x,1\n"))
    assert [next(blocks).numbers("a", "").tolist() for _ in range(2)] == [[1.0] * 3] * 2
    with pytest.raises(ValueError, match=r"row 7 \(line 8\), is 'x'"):
        next(blocks).numbers("a", "")
    blocks = tables.blocks(save(tmp_path / "long.csv", "a,b\n" + "1,2\n" * 100_000 + "1\n"))
    assert len(next(blocks)) == 3
    for content, words in {"\n \n": "is empty", "\n\na,b\n": "no rows", "": "is empty"}.items():
        with pytest.raises(ValueError, match=words):
            list(tables.blocks(save(tmp_path / "t.csv", content)))
    with pytest.raises(ValueError, match="not a gzip file"):
        list(tables.blocks(save(tmp_path / "t.csv.gz", gzip.compress(good.encode() * 99)[:-20])))
    found = list(tables.blocks(save(tmp_path / "t.csv", "\ufeffä;b\r\n1,5;2\r\n".encode("utf-16-le")), decimal=","))
    assert found[0].numbers("ä", "").tolist() == [1.5]


@pytest.mark.parametrize("ending", [*ENDINGS, ".csv.gz"])
def test_interrupted_blocks_leave_the_file_as_it_was(tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    path = save(tmp_path / f"t{ending}", "before")

    def write_some():
        with tables.writing(path) as add:
            add({"x": np.arange(5.0)})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_some()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_expected_rows(tmp_path):
    """Exact for Parquet, an estimate for a large text, unknown before a compressed text or a missing file is read."""
    columns = {"a": np.arange(50_000.0), "b": np.random.default_rng(0).standard_normal(50_000)}
    for name in ("t.csv", "t.parquet", "t.csv.gz", "t.npz"):
        tables.write(tmp_path / name, columns)
    assert tables.expected_rows(tmp_path / "t.parquet") == 50_000
    assert (tmp_path / "t.csv").stat().st_size > tables.SAMPLE
    assert tables.expected_rows(tmp_path / "t.csv") == pytest.approx(50_000, rel=0.05)
    for name in ("t.csv.gz", "t.npz", "none.csv", "none.parquet"):
        assert tables.expected_rows(tmp_path / name) is None


def test_a_value_that_means_missing(tmp_path):
    """A word, or a number however it is written; truth values are no numbers."""
    table = tables.read(save(tmp_path / "t.csv", "a;b\n100,0;cat\n1;100\n;-\n"), decimal=",")
    assert np.isnan(table.without("100", "ab").numbers("a", "")).tolist() == [True, False, True]
    assert table.without(100.0, "ab").entries("b") == ["cat", None, "-"]
    assert table.without("-", "ab").entries("b") == ["cat", "100", None]
    cells = np.array([True, 1, 1.0, None, "1"], object)
    for value, left in (("1", [True]), ("-", [True, 1, 1.0, "1"])):
        found = tables.Table("t", {"c": cells}).without(value, ["c"]).columns["c"]
        assert [cell for cell in found if cell is not None and cell == cell] == left


FORMATS = {".xlsx": "openpyxl", ".feather": "pyarrow", ".arrow": "pyarrow"}


@pytest.mark.parametrize(("ending", "package"), FORMATS.items())
def test_workbooks_and_arrow_files(tmp_path, monkeypatch, ending, package):
    pytest.importorskip(package)
    monkeypatch.setattr(tables, "ROWS", 3)
    columns = {"a": np.array([1.5, np.nan, 3.0, 1e300, -0.1]), "b": np.array(["x", "", "none", "1,5", "y"], object)}
    columns |= {"c": np.arange(5) > 2, "d": np.arange(5)}
    path = tmp_path / f"t{ending}"
    with tables.writing(path) as add:
        for some in (slice(0, 2), slice(2, 5)):
            add({name: column[some] for name, column in columns.items()})
    whole = tables.read(path)
    assert list(whole.columns) == list("abcd")
    assert np.array_equal(whole.numbers("a", ""), columns["a"], equal_nan=True)
    assert np.array_equal(whole.numbers("d", ""), columns["d"])
    assert whole.entries("b") == ["x", None, "none", "1,5", "y"]
    assert whole.columns["c"].tolist() == columns["c"].tolist()
    parts = list(tables.blocks(path))
    assert max(map(len, parts)) <= 3
    assert [part.first for part in parts] == np.cumsum([0, *map(len, parts)])[:-1].tolist()
    assert [cell for part in parts for cell in part.text("d")] == whole.text("d")


def test_what_a_workbook_may_hold(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    for row in ([None, None], ["day", "n", None], [datetime(2024, 12, 31), 2, None], [None, None], ["1.2.2024", None]):
        sheet.append(row)
    book.create_sheet("empty")
    book.save(tmp_path / "t.xlsx")
    found = tables.read(tmp_path / "t.xlsx")
    assert found.columns["day"].tolist() == [datetime(2024, 12, 31), "1.2.2024"]
    assert np.array_equal(found.columns["n"], [2.0, np.nan], equal_nan=True)
    book.create_sheet("second").append(["a"])
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(ValueError, match=r"2 sheets with cells \(Sheet, second\)"):
        tables.read(tmp_path / "t.xlsx")
    with pytest.raises(ValueError, match="not an Excel workbook"):
        tables.read(save(tmp_path / "broken.xlsx", "PK"))


def test_a_broken_arrow_file(tmp_path):
    pytest.importorskip("pyarrow")
    with pytest.raises(ValueError, match="not an Arrow file"):
        tables.read(save(tmp_path / "t.feather", "ARROW1 and no more"))


def test_arrow_files_of_pandas(tmp_path):
    pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"a": [1.0, None], "b": pandas.Categorical(["x", None]), "c": pandas.to_datetime(["2024-01-02"] * 2)}
    )
    frame.to_feather(tmp_path / "t.feather")
    found = tables.read(tmp_path / "t.feather")
    assert np.array_equal(found.columns["a"], [1.0, np.nan], equal_nan=True)
    assert found.entries("b") == ["x", None]
    assert found.columns["c"].dtype.kind == "M"
