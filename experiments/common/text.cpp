#include "experiments/common/text.h"

namespace clearhead {

nlohmann::json to_json(const TextOptions& o) {
  return {{"corpus", o.corpus}, {"tokenizer", o.tokenizer}, {"vocab", o.vocab}};
}

Corpus read_text(Run& run) {
  const TextOptions& t = run.options().text;
  CorpusOptions o{.tokenizer = Tokenizer::kind_from(t.tokenizer), .vocab_size = t.vocab};
  if (t.corpus.size() == 1 && (t.corpus[0] == "code" || t.corpus[0] == "prose"))
    o.set = t.corpus[0];
  else
    o.files = t.corpus;
  run.say("\nreading the text (the first time this learns a tokenizer, which takes up to half a minute)");
  Corpus corpus = load_corpus(o);
  run.say(corpus.summary());
  for (const std::string& note : corpus.notes) run.say("  " + note);
  corpus.tokenizer.save(run.path("tokenizer.json"));
  return corpus;
}

std::vector<double> frequencies(const std::vector<int32_t>& ids, int64_t V) {
  std::vector<double> p(size_t(V), 0);
  for (int32_t id : ids) p[size_t(id)] += 1 / double(ids.size());
  return p;
}

}  // namespace clearhead
