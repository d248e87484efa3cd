// Tables over tokens, read off the weights: the largest entries of each row of a matrix that is never formed.
//
// A one-layer model is bigrams plus skip-trigrams, [source] ... [destination] -> [out]: a head looks from destination
// to source by as much as QK says, and a source that is looked at raises the outputs that OV says. Both are tables [V,
// V] of which one wants the few largest entries of a row.
//
// What is common to a row or column says little: softmax over sources does not see what a destination adds to all of
// them, and an output that every source raises is raised by its frequency. So tables are centred first, by the
// frequencies p of tokens: QK over sources for each destination, OV over sources for each output.
#pragma once

#include "nn/circuits/circuits.h"

namespace clearhead::inline CLEARHEAD_REAL {

struct Entry {
  int64_t token;
  double value;
};
// The k largest entries of the given rows, largest first (ties by the smaller token). By blocks of 256 rows: 256 * n
// numbers of memory.
std::vector<std::vector<Entry>> top_of_rows(const Factored& table, const std::vector<int64_t>& rows, int64_t k);

// Subtracts from every row the mean over rows, weighted by p [m] (which sums to 1): columns then have mean 0. The
// factors stay of the same rank.
Factored centred_over_rows(const Factored& table, const std::vector<double>& p);

// One head's skip-trigrams for one source token: from where it is looked at, and what it then makes likely.
struct SkipTrigrams {
  int64_t source;
  std::vector<Entry> destinations, outs;
};
std::vector<SkipTrigrams> skip_trigrams(const Weights& w, const Head& h, const std::vector<int64_t>& sources, int64_t k,
                                        const std::vector<double>& frequencies);

// The whole of a one-layer model on [source] ... [destination], from the weights alone: its logits [V] at the destination,
// if the context is the source, the destination, and `others` tokens of these frequencies. Every head's attention follows
// from QK (positions are left out), what it then moves from OV, and the direct path is added. One head's table says what it
// raises for any source; which of that is the answer is often said by the others and by the direct path.
std::vector<double> skip_trigram_logits(const Weights& w, int64_t source, int64_t destination,
                                        const std::vector<double>& frequencies, double others);

}  // namespace clearhead::inline CLEARHEAD_REAL
