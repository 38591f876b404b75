#!/usr/bin/env python3
"""Writes the manual page simm.json(5) from the schema of the configuration.

schema_to_man.py simm.schema.json simm.json.5: a key that the schema has is in the page.
"""
import json
import sys

HEAD = """.Dd November 21, 2026
.Dt SIMM.JSON 5
.Os SiMM
.Sh NAME
.Nm simm.json
.Nd configuration of the daemons of SiMM
.Sh DESCRIPTION
.Xr simmd 8
reads one JSON object from the file that
.Fl -config
names.
Every key may be left out; without a file all have their defaults.
An unknown key, or a value out of range, is an error that names the key and the remedy.
.Ql simmctl config check
and
.Ql simmd --check-config
look for such errors, and
.Ql simmctl config show
tells what a running daemon has.
.Pp
A size is a number of bytes, or a string with a unit:
.Ql \\(dq64MiB\\(dq ,
.Ql \\(dq1.5 GB\\(dq .
A share is a string such as
.Ql \\(dq10%\\(dq ,
of the memory of the host.
.Sh KEYS
"""
TAIL = """.Sh EXAMPLES
.Bd -literal -compact
{"node": {"pool_bytes": "50%"}, "log": {"level": "warning"}}
.Ed
.Sh SEE ALSO
.Xr simmctl 1 ,
.Xr simmd 8
"""


def quoted(text):
    """A text as part of a line of roff."""
    return text.replace("\\", "\\e").replace('"', "\\(dq").replace("-", "\\-")


def what(schema):
    """The type and the range of a key, in words."""
    if "enum" in schema:
        return "one of " + ", ".join(schema["enum"])
    if "anyOf" in schema:
        number, text = schema["anyOf"]
        if text["type"] == "array":
            return f"{what(number)}, or a list of strings"
        kind = "size or share" if "%" in text["pattern"] else "size"
        return f"{kind}, {number['minimum']} to {number['maximum']} bytes"
    if schema["type"] == "array":
        items = schema["items"]
        return f"list of integers, {items['minimum']} to {items['maximum']}"
    if schema["type"] == "integer":
        return f"integer, {schema['minimum']} to {schema['maximum']}"
    if schema["type"] == "string":
        return f"string of {schema['minLength']} to {schema['maxLength']} characters"
    return schema["type"]


def keys_of(schema, prefix=""):
    """(path, schema, whether it must be given) of every key, in the schema's order."""
    required = schema.get("required", [])
    for name, value in schema["properties"].items():
        path = prefix + name
        items = value.get("items", {})
        if "properties" in value:
            yield from keys_of(value, path + ".")
        elif "properties" in items:
            yield from keys_of(items, path + "[].")
        else:
            yield path, value, name in required


def entry(path, schema, is_required):
    """The lines of one key."""
    default = "required" if is_required else "optional"
    if "default" in schema:
        default = "default " + json.dumps(schema["default"])
    sentences = schema["description"]
    return f".It Va {path}\n{quoted(sentences)}\n.br\n{quoted(what(schema))}; {quoted(default)}\n"


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        schema = json.load(file)
    entries = "".join(entry(*key) for key in keys_of(schema))
    with open(sys.argv[2], "w", encoding="utf-8") as page:
        page.write(HEAD + ".Bl -tag -width Ds\n" + entries + ".El\n" + TAIL)


if __name__ == "__main__":
    main()
