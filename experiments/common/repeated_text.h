// Natural text that repeats: what tells whether a model that was trained on plain text has induction heads.
#pragma once

#include "experiments/common/measures.h"
#include "experiments/common/text.h"

namespace clearhead {

// Code and prose with one tokenizer, and what models of either are looked at with. Every row begins with <bos>.
struct TextData {
  static constexpr int64_t T = 256, passage = 64, copies = T / passage;
  struct HeldOut {
    Batch passages;  // 32 passages, each repeated to the end
    Batch shuffled;  // the same, but all copies except the last in a random order of its tokens
    Batch windows;   // 64 windows, as they are
  };
  Corpus code, prose;
  HeldOut held_out_code, held_out_prose;
  Tokens random;  // passages of random tokens, neither of the most nor of the least frequent eighth, repeated

  TextData(Run& run, int vocab_size);
  const Tokenizer& tokenizer() const { return code.tokenizer; }
};

// Mean loss of repeated passages: of the first copy, and of the same tokens in the later ones. Without each passage's
// first token, which does not follow what it followed before.
struct Copies {
  double first = 0, later = 0;
  double gain() const { return first - later; }
};
Copies copies_of(const Predictions& p);
double last_copy_of(const Predictions& p);  // of the last copy alone

// "previous", "random_prefix": of the best head; and of "code" and "prose" each, under <text>_<name>, "prefix", "first"
// and "later" on repeated passages, "order" (how much less the last copy costs than after shuffled ones); "loss" and "icl" (late minus early) on windows.
nlohmann::json text_snapshot(const Transformer& model, const TextData& data);

// How often copying pays: the share of all positions of held-out windows where what followed the present token last time
// is right, and its most frequent successor in the training text is not. With this share of code in both.
double pay_off(const TextData& data, double share_of_code);

// A held-out passage of code, its first twelve tokens again, and how the model goes on from there, always with the most
// probable token.
std::string continued(const Transformer& model, const TextData& data, int64_t row, const Probe& probe);

}  // namespace clearhead
