"""Writes a file's bytes as C: embed.py FILE NAME > NAME.c"""
import sys

data = open(sys.argv[1], "rb").read()
name = sys.argv[2]
print('#include "descriptors.h"\n')
print(f"static const unsigned char bytes[{len(data)}] = {{")
for at in range(0, len(data), 16):
    print("    " + " ".join(f"0x{byte:02x}," for byte in data[at:at + 16]))
print("};")
print(f"const struct rota_str {name} = {{(const char *)bytes, sizeof bytes}};")
