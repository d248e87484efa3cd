// Skip-trigrams, [source] ... [destination] -> [out], as tables to read, and whether the text bears them out.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "experiments/common/tasks.h"
#include "nn/circuits/paths.h"
#include "nn/circuits/tables.h"

namespace clearhead {

using Names = std::function<std::string(int64_t)>;  // of tokens

// The same weights for some tokens only, token i of which is ids[i]. Tables over rare tokens are mostly noise.
Weights of_tokens(const Weights& w, const std::vector<int64_t>& ids);
std::vector<int64_t> tokens_at_least(const std::vector<double>& frequencies, double least);  // Error if there are none
std::vector<int32_t> as_indices(const std::vector<int32_t>& text, const std::vector<int64_t>& ids);  // -1 for others

// Of one head, the `lines` sources that raise some out most: from where they are looked at, and what they then raise.
// `frequencies` [V] are what the tables are centred by (tables.h): what is left is what this source adds to what any
// token would.
std::vector<SkipTrigrams> strongest(const Weights& w, const HeadId& head, const std::vector<double>& frequencies,
                                    size_t lines, int64_t k);
std::string skip_trigram_table(const std::vector<SkipTrigrams>& rows, const Names& names, size_t entries);

struct Triple {
  int64_t source, destination, out;
};
// Of one row, the destination and out whose probability the source raises most in the whole of a one-layer model, from
// the weights alone: beside it in the context stand `others` tokens of these frequencies.
struct Gain {
  Triple triple;
  double probability;  // with the source minus without
};
Gain largest_gain(const Weights& w, const SkipTrigrams& row, const std::vector<double>& frequencies, double others);

// How often `out` follows `destination` in a text, if `source` stood within `window` tokens before it, and if not.
struct Borne {
  double with, without;
  int64_t seen_with;  // how often destination came after source
  double adjacent;    // the share of those followed by `out` where source stood directly before: parts of one word
  double lift() const { return with / without; }
};
std::vector<Borne> borne_out(const std::vector<int32_t>& text, const std::vector<Triple>& triples, int64_t window);

// What kind of skip-trigram it is: "copying" (source and out are the same word, but for case and spaces), "code" (source
// or out has no letter: brackets, indentation), "one word" (source stands directly before), "words" (the rest).
std::string kind_of(const std::string& source, const std::string& out, const Borne& b);

// All of it for a one-layer model and a text: `lines` gains and what the text says, and the kinds of all of them. Lifts
// are NaN if there is no gain above .02.
struct GainReport {
  std::string table;
  double median_lift, exchanged_lift;  // of the gains above .02; with their outs exchanged among each other
  double borne;                        // share of them with a lift of 2 or more
};
GainReport report_gains(std::vector<Gain> gains, const std::vector<int32_t>& text, int64_t window, size_t lines,
                        const Names& names);

// Mean probabilities at destinations: of the right out, and of `mistakes`, outs of the same source with another
// destination. With the source in the context, and with noise in its place.
struct PlantedOuts {
  double right, mistake, mistake_without_source;
};
PlantedOuts planted_outs(const Transformer& model, const SkipTrigramLanguage& language, uint64_t seed);

}  // namespace clearhead
