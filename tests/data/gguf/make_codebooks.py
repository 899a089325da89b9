"""Makes core/formats/ggml_codebooks.cc: the codebooks of GGUF's IQ types.

    python make_codebooks.py > ggml_codebooks.cc    # needs numpy, gguf (made with 0.19.0)

The values come from the gguf package. An entry is one number: the index of each of its magnitudes,
2 bits for each of 8 values or 3 bits for each of 4, the first value lowest. Then clang-format.
"""

from gguf import quants

HEAD = """#include "core/formats/ggml_codebooks.h"

namespace ng {
"""
# The class of the package, and the name here.
BOOKS = [("IQ2_XXS", "kIq2XxsBook"), ("IQ2_XS", "kIq2XsBook"), ("IQ2_S", "kIq2SBook"),
         ("IQ3_XXS", "kIq3XxsBook"), ("IQ3_S", "kIq3SBook"), ("IQ1_S", "kIq1Book")]


def main():
    print(HEAD)
    for kind, name in BOOKS:
        book = getattr(quants, kind)
        book.init_grid()
        order = list(book.grid_map)
        n, length = book.grid_shape
        width = 2 if length == 8 else 3
        entries = []
        for values in book.grid.reshape(n, length):
            entries.append(sum(order.index(int(v)) << (width * i) for i, v in enumerate(values)))
        print(f"const std::array<uint16_t, {n}> {name} = {{")
        print(", ".join(f"0x{entry:04X}" for entry in entries))
        print("};\n")
    print("}  // namespace ng")


main()
