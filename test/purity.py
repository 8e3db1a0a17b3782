"""Reads `object symbol` lines of undefined symbols of the pure layers and names
every one that reaches outside: not ours, and not in the list below."""
import re
import sys

PURE = set("""
    malloc calloc realloc free qsort bsearch abort __assert_fail
    memcpy memmove memset memcmp memchr memrchr memmem
    strlen strcmp strncmp strchr strrchr strnlen strcspn strspn
    snprintf vsnprintf
    sqrt log log2 exp pow floor ceil round trunc fabs ldexp frexp llround lround
    __memcpy_chk __memset_chk __memmove_chk __snprintf_chk __vsnprintf_chk
    __stack_chk_fail _GLOBAL_OFFSET_TABLE_
""".split())

# A clock, a log or a socket of ours is as impure as one of libc's.
IMPURE_OURS = re.compile(r"^rota_(clock|file|loop|mailbox)_")

bad = []
for line in sys.stdin:
    place, symbol = line.split()
    symbol = symbol.split("@")[0]
    ours = symbol.startswith("rota_") and not IMPURE_OURS.match(symbol)
    checked = symbol.startswith(("__asan_", "__ubsan_", "__tsan_", "__sanitizer_"))
    if symbol not in PURE and not ours and not checked:
        bad.append(f"{place} uses {symbol}, which is not pure")
print("\n".join(bad))
sys.exit(1 if bad else 0)
