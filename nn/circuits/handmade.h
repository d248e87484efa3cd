// An induction circuit written down by hand, so that one can look at what training must find, and so that every score
// has a known answer.
//
// The stream has three places for tokens, "mine", "the one before me" and "my answer", of which logits are read;
// queries and keys also see a one-hot position:
//
//     layer 0, head 0   looks one back: the query of position i is e_i, the key of position j is e_(j+1).
//                       moves: mine -> the one before me.
//     layer 1, head 0   looks for my token in "the one before me": attends to what followed it last time.
//                       moves: mine -> my answer. So the logits say: what followed last time.
//
//     [A][B] ... [A]: at B, layer 0 wrote "A was before me"; the second A asks for exactly that, and B is copied.
//
// Position 0 can only look at itself, so its token is wrongly "before" itself: begin sequences with a token that does
// not come again, as trained models are given a BOS for. Without a match, layer 1 looks everywhere alike.
#pragma once

#include "nn/circuits/circuits.h"

namespace clearhead::inline CLEARHEAD_REAL {

// V tokens, sequences of up to n_ctx. A match scores `sharpness` above the rest, so a head's attention to one match
// among T sources is at least 1 / (1 + (T - 1) e^-sharpness).
Weights handmade_induction(int64_t V, int64_t n_ctx, double sharpness = 30);

}  // namespace clearhead::inline CLEARHEAD_REAL
