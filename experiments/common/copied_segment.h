// A language with repeats among chance, and the rules that can tell one from the other.
#pragma once

#include <vector>

#include "nn/transformer.h"
#include "tensor/random.h"

namespace clearhead {

// One segment of uniformly random tokens, copied to a random later place (where the copy is, is drawn first):
//
//     x x x | S S S S | x x x x x | S S S S | x x
//
// Tokens come again by chance, too, so that after most of them stood several earlier ones: what followed last time is
// often not what follows in the segment.
struct CopiedSegment {
  int64_t V = 64, T = 128, length = 24;  // sequences of T + 1 tokens

  struct Sample {
    Tokens tokens;                  // [B, T + 1]
    std::vector<int64_t> from, to;  // where segment and copy begin, of each sequence
  };
  Sample sample(int64_t B, Rng& rng) const;
};
// Where the copy can be known: the inputs from its first token to the last but one, as (sequence, destination, the
// position that stands there in the segment). What follows there, follows here.
struct CopiedPosition {
  int64_t b, t, source;
};
std::vector<CopiedPosition> copied_positions(const CopiedSegment& task, const CopiedSegment::Sample& s);
// How many different tokens followed earlier occurrences of the token at the destination.
int64_t followers(const Tokens& tokens, const CopiedPosition& c);
// The accuracy there of a rule that looks for an earlier occurrence of the last n tokens, at least `gap` back, and repeats
// what followed: the best of the first, the last, and the most frequent, ties at random. Where there is none, of the last
// n - 1 tokens, and so on.
double matching_accuracy(const CopiedSegment& task, const CopiedSegment::Sample& s, int64_t n, int64_t gap = 1);

}  // namespace clearhead
