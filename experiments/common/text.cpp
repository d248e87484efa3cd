#include "experiments/common/text.h"

namespace clearhead {
namespace {

const std::string reading =
    "\nreading the text (the first time this learns a tokenizer, which takes up to half a minute)";

void tell(const Run& run, const Corpus& corpus) {
  run.say(corpus.summary());
  for (const std::string& note : corpus.notes) run.say("  " + note);
}

}  // namespace

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
  run.say(reading);
  Corpus corpus = load_corpus(o);
  tell(run, corpus);
  corpus.tokenizer.save(run.path("tokenizer.json"));
  return corpus;
}

std::pair<Corpus, Corpus> read_code_and_prose(Run& run, int vocab_size) {
  CorpusOptions o{.tokenizer = Tokenizer::Kind::bpe, .vocab_size = vocab_size};
  for (const std::string set : {"code", "prose"}) o.files.push_back(text_file(set, "train.txt"));
  run.say(reading);
  load_corpus(o).tokenizer.save(o.tokenizer_file = run.path("tokenizer.json"));
  o.files.clear();
  const auto load = [&](const std::string& set) {
    o.set = set;
    Corpus corpus = load_corpus(o);
    tell(run, corpus);
    return corpus;
  };
  return {load("code"), load("prose")};
}

std::vector<double> frequencies(const std::vector<int32_t>& ids, int64_t V) {
  std::vector<double> p(size_t(V), 0);
  for (int32_t id : ids) p[size_t(id)] += 1 / double(ids.size());
  return p;
}

}  // namespace clearhead
