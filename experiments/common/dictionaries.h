// Patterns in context: "A -> B C -> D A -> B ..", lines of a dictionary that is drawn anew for every sequence, and prompts
// that ask for one of its values.
#pragma once

#include <vector>

#include "nn/transformer.h"
#include "tensor/random.h"

namespace clearhead {

// The tokens: letters that occur in training, letters that never do, and the arrow.
constexpr int32_t letters = 56, untrained_letters = 8, arrow = letters + untrained_letters, dictionary_V = arrow + 1;

struct Pair {
  int32_t key, value;
};
using Pairs = std::vector<Pair>;
bool held_out(const Pair& p);  // a tenth of all pairs does not occur in training

// Lines of a dictionary of 2 to 8 pairs of different letters, in random order, [B, 64]: "key -> value" in this share of the
// sequences, in the others "key value". Targets are the values of keys that occurred before: nothing else can be known.
Batch dictionary_lines(int64_t B, double with_arrows, Rng& rng);

enum class Ask { seen, unseen_pairs, distractors, unseen_key, untrained_values, untrained_keys };

// 512 prompts: "key -> value" for each of `lines` pairs in random order, then "key ->".
struct Prompts {
  Tokens tokens;
  std::vector<Pairs> pairs;      // of each prompt
  std::vector<int32_t> answers;  // the value that was shown; for an unseen key: some letter that does not occur
  std::vector<int32_t> rivals;   // the other value, where examples conflict; otherwise some letter that does not occur
  std::vector<int64_t> shown;    // where the answer stands, for the last time; -1: nowhere
};
// The line that is asked for is shown `shots` times; if examples conflict, its key comes once more after that, with
// another value.
Prompts prompts(int64_t lines, Ask ask, uint64_t seed, int64_t shots = 1, bool conflicting = false);

struct Answers {
  double right = 0, p = 0, p_values = 0;  // best guess; probabilities of the answer, and of all values that were shown
};
Answers ask(const Transformer& model, const Prompts& q);

// Attention from the last arrow, to the right answer and to all answers: of the head of layer 1 that gives the right one
// most. For prompts without distractors, and a single shot.
struct Looks {
  double right = 0, all = 0;
};
Looks looks(const Transformer& model, const Prompts& q);

}  // namespace clearhead
