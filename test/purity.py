"""Reads `nm -A` of the libraries of the pure layers and names every symbol that
they use and that is neither defined among them nor in the list below: it reaches
outside."""
import sys

PURE = set("""
    malloc calloc realloc free qsort bsearch abort __assert_fail
    memcpy memmove memset memcmp memchr memrchr memmem
    strlen strcmp strncmp strchr strrchr strstr strnlen strcspn strspn strcpy
    snprintf vsnprintf strtod
    sqrt log log2 exp pow floor ceil round trunc fabs ldexp frexp llround lround
    deflate deflateInit2_ deflateEnd inflate inflateInit2_ inflateEnd inflateReset
    __divti3 __divmodti4 __stack_chk_fail _GLOBAL_OFFSET_TABLE_
""".split())

used, defined = {}, set()
for line in sys.stdin:
    place, *_, kind, symbol = line.split()
    if kind == "U":
        used.setdefault(symbol, place.rstrip(":"))
    else:
        defined.add(symbol)

if len(defined) < 100:
    sys.exit("purity: the libraries are missing or empty")
bad = sorted(symbol for symbol in used if symbol not in PURE and symbol not in defined)
for symbol in bad:
    print(f"{used[symbol]} uses {symbol}, which is not pure")
sys.exit(1 if bad else 0)
