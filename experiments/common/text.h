// Text that a program was told to train on (--corpus, --tokenizer, --vocab).
#pragma once

#include "experiments/common/corpus.h"
#include "experiments/common/run.h"

namespace clearhead {

nlohmann::json to_json(const TextOptions& o);

// Reads and encodes it, tells the reader what it is, and saves tokenizer.json in the run's folder.
Corpus read_text(Run& run);

// The texts that were fetched, both encoded by one tokenizer that was trained on both, so that models of either, or of
// mixtures, can be compared. Tells and saves as read_text does.
std::pair<Corpus, Corpus> read_code_and_prose(Run& run, int vocab_size);

// The share of every token in a row of ids: [V], with a sum of 1.
std::vector<double> frequencies(const std::vector<int32_t>& ids, int64_t V);

}  // namespace clearhead
