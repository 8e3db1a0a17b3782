"""Compares our description of .proto files with protoc's:
check_descriptors.py PROTOC ROOT DESCRIPTORS.c FILE..."""
import re
import subprocess
import sys
import tempfile

protoc, root, ours, *paths = sys.argv[1:]
with tempfile.NamedTemporaryFile() as theirs:
    subprocess.run([protoc, f"--proto_path={root}", f"--descriptor_set_out={theirs.name}",
                    "--include_imports"] + paths, check=True)
    wanted = open(theirs.name, "rb").read()
found = bytes(int(byte, 16) for byte in re.findall(r"0x(..),", open(ours).read()))
if found != wanted:
    at = next((i for i, (a, b) in enumerate(zip(found, wanted)) if a != b),
              min(len(found), len(wanted)))
    sys.exit(f"byte {at} differs: {found[max(at - 40, 0):at + 8]} is {wanted[max(at - 40, 0):at + 8]}")
