// Path expansion: a model as a sum over the ways that information can go through it.
//
// Once the patterns A are known, everything else is linear. A head maps the stream x [T, d_model] to A x OV, so after
// two layers (with one head each, to be short)
//
//     x2 = x + A1 x OV1 + A2 x OV2 + A2 A1 x OV1 OV2
//          direct  single heads       a virtual head: pattern A2 A1, moving through OV1 OV2
//
// and the logits are the sum of these terms, times W_U. The same for the scores of a later head, whose queries and keys
// are sums of what was written before it. Elhage et al. 2021; no approximation anywhere.
#pragma once

#include <functional>
#include <string>

#include "nn/circuits/circuits.h"

namespace clearhead::inline CLEARHEAD_REAL {

using Patterns = std::vector<Tensor>;  // of each layer [B, H, T, T]: destination, source

struct HeadId {
  int64_t layer, head;
  bool operator==(const HeadId&) const = default;
};
using Path = std::vector<HeadId>;        // from the first layer to the last; empty: the direct path
std::string to_string(const HeadId& h);  // "L0H3"
const Head& at(const Weights& w, const HeadId& id);
std::string to_string(const Path& p);  // "direct", "L0H3", "L0H3 > L1H2"

// W_E at the tokens, [B, T, d_model]; with W_pos if that is added to the stream.
Tensor embedded(const Weights& w, const Tokens& tokens);
// What queries and keys are computed from besides the stream: W_pos for shortformer, otherwise zeros.
Tensor positions_for_keys(const Weights& w, int64_t B, int64_t T);

// A x OV: what a head with this pattern [B, T, T] adds to the stream if it reads x [B, T, d_model].
Tensor moved(const Head& h, const Tensor& pattern, const Tensor& x);
// The pattern of a virtual head, A2 A1 [B, T, T]: its rows sum to 1 too.
Tensor virtual_pattern(const Tensor& first, const Tensor& second);

// Calls f for every path of up to max_order heads, shorter ones first along each branch, with what it adds to the final
// stream [B, T, d_model] (times W_U: to the logits). There are sum_k C(layers, k) H^k of them. Work is shared between
// paths that begin alike; memory: one stream for each head of the longest path.
void for_each_path(const Weights& w, const Patterns& patterns, const Tokens& tokens, int64_t max_order,
                   const std::function<void(const Path&, const Tensor&)>& f);

// The final stream by order: element k is the sum of all paths with exactly k heads. In layers x (orders) steps,
// without enumerating paths: stream[k] += sum_h A_h stream[k-1] OV_h, layer by layer. `use(id)` leaves heads out.
std::vector<Tensor> streams_by_order(const Weights& w, const Patterns& patterns, const Tokens& tokens,
                                     const std::function<bool(const HeadId&)>& use = nullptr);

// The scores of one head [B, T, T], in four parts that add up to them: from the embedding alone, or through earlier
// heads on the side of the queries, of the keys, or of both.
struct ScoreParts {
  Tensor direct, queries, keys, both;
  Tensor total() const;
};
ScoreParts score_parts(const Weights& w, const Patterns& patterns, const Tokens& tokens, const HeadId& head);

}  // namespace clearhead::inline CLEARHEAD_REAL
