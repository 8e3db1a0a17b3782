"""Certificates for tests, made with openssl on the spot: no file in the repository can run out."""

import os
import subprocess

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, stderr=subprocess.DEVNULL)


def make_authority(folder, name):
    """NAME.pem, with its key in NAME.key; the path of the former."""
    openssl(folder, "req", "-x509", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
            "-subj", f"/CN={name}")
    return os.path.join(folder, f"{name}.pem")


def make_certificate(folder, name, authority, names="IP:127.0.0.1"):
    """NAME.pem and NAME.key, by the authority of that name; their paths."""
    openssl(folder, "req", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
    with open(os.path.join(folder, f"{name}.ext"), "w") as file:
        file.write(f"subjectAltName={names}\n")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
            "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")
    return os.path.join(folder, f"{name}.pem"), os.path.join(folder, f"{name}.key")
