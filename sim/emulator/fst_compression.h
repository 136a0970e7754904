// What Verilator's FST writer asks of lz4 and zlib, so that no library has to be installed.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

// zlib: the writer keeps whichever is smaller, data or compressed data. A copy is never smaller.
using uLong = unsigned long;
using uLongf = unsigned long;
using Bytef = unsigned char;
constexpr int Z_OK = 0;

inline uLong compressBound(uLong size) { return size; }
inline int compress2(Bytef* to, uLongf* to_size, const Bytef* from, uLong size, int) {
    std::memcpy(to, from, size);
    *to_size = size;
    return Z_OK;
}

// lz4 block format: sequences of literals and matches; a block ends with at least five literals,
// and its last match begins at least twelve bytes before the end.
inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline void lz4_length(uint8_t*& to, int length) {
    for (; length >= 255; length -= 255) *to++ = 255;
    *to++ = uint8_t(length);
}

inline void lz4_sequence(uint8_t*& to, const uint8_t* from, int literals, int offset, int match) {
    const int extra = match - 4;
    uint8_t* token = to++;
    *token = uint8_t((literals < 15 ? literals : 15) << 4);
    if (literals >= 15) lz4_length(to, literals - 15);
    std::memcpy(to, from, size_t(literals));
    to += literals;
    if (!match) return;
    *token |= uint8_t(extra < 15 ? extra : 15);
    *to++ = uint8_t(offset);
    *to++ = uint8_t(offset >> 8);
    if (extra >= 15) lz4_length(to, extra - 15);
}

inline int LZ4_compress_default(const char* source, char* target, int size, int) {
    constexpr int TABLE_BITS = 14, NEAR_END = 12, LAST_LITERALS = 5, FARTHEST = 65535;
    std::vector<int> latest(1 << TABLE_BITS, -1);  // where four bytes of this hash were seen last
    const auto* from = reinterpret_cast<const uint8_t*>(source);
    auto* to = reinterpret_cast<uint8_t*>(target);
    int written = 0;
    for (int place = 0; place + NEAR_END < size;) {
        uint32_t word;
        std::memcpy(&word, from + place, 4);
        int& seen = latest[word * 2654435761u >> (32 - TABLE_BITS)];
        const int candidate = seen;
        seen = place;
        if (candidate < 0 || place - candidate > FARTHEST ||
            std::memcmp(from + candidate, &word, 4) != 0) {
            ++place;
            continue;
        }
        int match = 4;
        while (place + match < size - LAST_LITERALS &&
               from[candidate + match] == from[place + match])
            ++match;
        lz4_sequence(to, from + written, place - written, place - candidate, match);
        written = place += match;
    }
    lz4_sequence(to, from + written, size - written, 0, 0);
    return int(to - reinterpret_cast<uint8_t*>(target));
}
