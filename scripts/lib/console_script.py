"""console_script.py WHEEL: adds the entry points `gpumem` and `libgpumem` to the wheel, because
maturin does not add them with a binary. Installers then create commands that work with any path of
their Python. The second name is for environments with another project's `gpumem` (PyPI has one)."""

import base64
import csv
import hashlib
import io
import os
import sys
import zipfile

ENTRY = "[console_scripts]\ngpumem=gpumem.__main__:main\nlibgpumem=gpumem.__main__:main\n"


def with_entry(text: str) -> str:
    """The entry points, with the commands."""
    if "[console_scripts]" in text:
        raise SystemExit("console_script: the wheel has console scripts already")
    return f"{text.rstrip()}\n\n{ENTRY}".lstrip()


def recorded(record: str, name: str, content: bytes) -> str:
    """The wheel's RECORD with the new digest of one file."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows = [row for row in csv.reader(io.StringIO(record)) if row and row[0] != name]
    rows.append([name, f"sha256={digest}", str(len(content))])
    rows.sort(key=lambda row: row[0])
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def main(path: str) -> None:
    fresh = f"{path}.fresh"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(fresh, "w", zipfile.ZIP_DEFLATED) as new:
        (record,) = [name for name in old.namelist() if name.endswith(".dist-info/RECORD")]
        points = record.replace("RECORD", "entry_points.txt")
        changed = with_entry(old.read(points).decode() if points in old.namelist() else "").encode()
        for item in old.infolist():
            if item.filename not in (record, points):
                new.writestr(item, old.read(item))
        like = old.getinfo(record)
        for name, content in ((points, changed), (record, recorded(old.read(record).decode(), points, changed).encode())):
            item = zipfile.ZipInfo(name, like.date_time)
            item.external_attr, item.compress_type = like.external_attr, zipfile.ZIP_DEFLATED
            new.writestr(item, content)
    os.replace(fresh, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
