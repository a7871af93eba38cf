"""Archives: a folder as one file that is the same for the same folder, and of which no byte can change unseen.

An archive is a zip whose members are stored as they are, in the order of their names and without times. Its comment,
which stands last, is the sha256 of all that is before it.
"""

import hashlib
import shutil
import stat
import zipfile
from pathlib import Path, PurePosixPath

SUFFIXES = frozenset((".json", ".safetensors", ".toml", ".md", ".txt", ".spm", ".model", ".jinja"))  # nothing that runs
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say
DIGEST = 64  # characters of a sha256
MOST_FILES, LONGEST_NAME = 64, 200
CHUNK = 2**20


def write_archive(folder: Path, file: Path) -> None:
    """Write the files of a folder as an archive."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as made:
        for path in sorted(one for one in folder.rglob("*") if one.is_file()):
            member = zipfile.ZipInfo(path.relative_to(folder).as_posix(), EPOCH)
            member.create_system, member.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            member.file_size = path.stat().st_size  # by which a large one is told from a small one
            with path.open("rb") as source, made.open(member, "w") as target:
                shutil.copyfileobj(source, target, CHUNK)
        made.comment = b"0" * DIGEST  # its length is part of what is digested
    digest = _digest(file)
    with file.open("r+b") as stream:
        stream.seek(-DIGEST, 2)
        stream.write(digest.encode())


def extract(file: Path, folder: Path) -> list[str]:
    """Take the files of an archive out into a folder that is there; gives their names.

    Refused before anything is written: a file that is no archive or was changed, and names that lead elsewhere.
    """
    if not file.is_file():
        raise ValueError(f"there is no file {str(file)!r}: give an archive that glassformer pack wrote")
    try:
        with zipfile.ZipFile(file) as archive:
            if len(archive.comment) != DIGEST:
                raise ValueError(f"{file} is a zip, but no archive of glassformer pack, or was cut short")
            if archive.comment.decode("ascii", "replace") != _digest(file):
                raise ValueError(f"{file} is damaged: it is not what was packed; copy it again")
            members = archive.infolist()
            _check(file, members)
            _check_room(file, folder, members)
            for member in members:
                target = folder / member.filename
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("xb") as copy:
                    shutil.copyfileobj(source, copy, CHUNK)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as problem:
        raise ValueError(f"{file} is no archive of glassformer pack, or is damaged: {problem}") from None
    return [member.filename for member in members]


def _digest(file: Path) -> str:
    """The sha256 of a file without its last characters, where that is written."""
    found, left = hashlib.sha256(), file.stat().st_size - DIGEST
    with file.open("rb") as stream:
        while left > 0 and (part := stream.read(min(CHUNK, left))):
            found.update(part)
            left -= len(part)
    return found.hexdigest()


def _check(file: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuse names that lead out of a folder, and all that is not a plain file stored as it is."""
    if len(members) > MOST_FILES:
        raise ValueError(f"{file} holds {len(members)} files; a model has at most {MOST_FILES}")
    for member in members:
        name, kind = member.filename, stat.S_IFMT(member.external_attr >> 16)
        parts = PurePosixPath(name).parts
        plain = name == "/".join(parts) and name.isprintable() and not {"\\", ":"} & set(name)
        if not plain or not parts or name.startswith("/") or {".", ".."} & set(parts) or len(name) > LONGEST_NAME:
            raise ValueError(f"{file} holds a file called {name[:LONGEST_NAME]!r}, which leads out of its folder")
        if kind not in (0, stat.S_IFREG) or PurePosixPath(name).suffix not in SUFFIXES:
            raise ValueError(f"{file} holds {name!r}, which is no file of a model")
        if (
            member.compress_type != zipfile.ZIP_STORED
            or member.flag_bits & 1
            or member.file_size != member.compress_size
        ):
            raise ValueError(f"{file} holds {name!r} compressed or encrypted, which glassformer pack does not do")
    names = [member.filename.casefold() for member in members]
    if len(set(names)) < len(names):
        raise ValueError(f"{file} holds two files of one name")
    if sum(member.file_size for member in members) > file.stat().st_size:
        raise ValueError(f"{file} says that it holds more than it has")


def _check_room(file: Path, folder: Path, members: list[zipfile.ZipInfo]) -> None:
    needed, free = sum(member.file_size for member in members), shutil.disk_usage(folder).free
    if needed > free:
        raise ValueError(f"{file} needs {needed / 1e6:.0f} MB, and the disk has {free / 1e6:.0f} MB left")
