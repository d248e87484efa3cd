// Natural text that repeats: what tells whether a model that was trained on plain text has induction heads.
#pragma once

#include "experiments/common/measures.h"
#include "experiments/common/text.h"

namespace clearhead {

// Code and prose with one tokenizer, and what models of either are looked at with. In every row <bos> stands in place of the
// first token.
struct TextData {
  static constexpr int64_t T = 256, passage = 64, copies = T / passage;
  struct Text {
    Corpus corpus;
    Batch passages;  // 32 held-out passages, each repeated to the end
    Batch shuffled;  // the same, but all copies except the last in a random order of its tokens
    Batch windows;   // 64 held-out windows, as they are
    explicit Text(Corpus c);
  };
  Text code, prose;
  Tokens random;  // passages of random tokens, neither of the most nor of the least frequent eighth, repeated

  TextData(Run& run, int vocab_size);
  const Tokenizer& tokenizer() const { return code.corpus.tokenizer; }

 private:
  TextData(Run& run, std::pair<Corpus, Corpus> code_and_prose);
};

// Mean loss of repeated passages: of the first copy, and of the same tokens in the later ones. Without each passage's
// first token, which does not follow what it followed before.
struct Copies {
  double first = 0, later = 0;
  double gain() const { return first - later; }
};
Copies copies_of(const Predictions& p);
// How much less the last copy costs after copies than after shuffled copies: what the order of tokens is worth.
double gain_by_order(const Transformer& model, const TextData::Text& text);

// Of the best heads "previous" and "random_prefix"; and of "code" and "prose" each, as <text>_<name>: "prefix", "first"
// and "later" on repeated passages, "loss" and "icl" (late minus early) on windows.
nlohmann::json text_snapshot(const Transformer& model, const TextData& data);

// How often copying pays: the share of all positions of held-out windows where what followed the present token last
// time is right, and its most frequent successor in the training text is not. With this share of code in both.
double pay_off(const TextData& data, double share_of_code);

// How the model goes on after these tokens, always with the most probable one, for n tokens.
std::vector<int32_t> continued(const Transformer& model, std::vector<int32_t> ids, int64_t n, const Probe& probe = {});

}  // namespace clearhead
