// Head detectors: what does a head attend to? Scores of attention patterns [B, H, T, T] (rows destinations, columns
// sources), one number per head: the mean attention that goes from a destination to the sources in question. If there
// are several such sources for one destination their attention is added; destinations that have none are left out.
//
// The sources of the destination i, where j < i is any earlier position with the same token, x_j = x_i:
//     previous token      i - 1
//     current token       i                 (of i > 0: position 0 has nothing else to attend to)
//     first token         0                 (of i > 0) where heads look that find nothing: a resting place
//     duplicate token     j
//     induction           j + 1    "prefix matching": the token that followed last time (Olsson et al. 2022)
// j + 1, not j - 1: the prose of the paper can be read both ways, its definition by "the token which induction would
// suggest comes next" cannot. A duplicate-token head must score about 0 as an induction head.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace clearhead::inline CLEARHEAD_REAL {

std::vector<double> previous_token_scores(const Tensor& pattern);                         // [H]
std::vector<double> current_token_scores(const Tensor& pattern);                          // [H]
std::vector<double> first_token_scores(const Tensor& pattern);                            // [H]
std::vector<double> duplicate_token_scores(const Tensor& pattern, const Tokens& tokens);  // [H]
std::vector<double> prefix_matching_scores(const Tensor& pattern, const Tokens& tokens);  // [H]

}  // namespace clearhead::inline CLEARHEAD_REAL
