#include "experiments/common/skip_trigram_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include "tensor/kernels.h"

namespace clearhead {

Weights of_tokens(const Weights& w, const std::vector<int64_t>& ids) {
  const int64_t d = w.d_model(), n = int64_t(ids.size());
  Weights some = w;
  some.W_E = Tensor::empty({n, d}), some.W_U = Tensor::empty({d, n});
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < d; ++k) {
      some.W_E.mut()[size_t(i * d + k)] = w.W_E.at({ids[size_t(i)], k});
      some.W_U.mut()[size_t(k * n + i)] = w.W_U.at({k, ids[size_t(i)]});
    }
  return some;
}

std::vector<int64_t> tokens_at_least(const std::vector<double>& frequencies, double least) {
  std::vector<int64_t> ids;
  for (size_t i = 0; i < frequencies.size(); ++i)
    if (frequencies[i] >= least) ids.push_back(int64_t(i));
  require(!ids.empty(), "skip-trigrams", "no token makes up ", least, " of the text; a smaller --vocab helps");
  return ids;
}

std::vector<int32_t> as_indices(const std::vector<int32_t>& text, const std::vector<int64_t>& ids) {
  std::vector<int32_t> index(size_t(std::max<int64_t>(ids.back(), *std::ranges::max_element(text)) + 1), -1), found;
  for (size_t i = 0; i < ids.size(); ++i) index[size_t(ids[i])] = int32_t(i);
  for (int32_t id : text) found.push_back(index[size_t(id)]);
  return found;
}

std::vector<SkipTrigrams> strongest(const Weights& w, const HeadId& head, const std::vector<double>& frequencies,
                                    size_t lines, int64_t k) {
  std::vector<int64_t> sources(static_cast<size_t>(w.V()));
  std::iota(sources.begin(), sources.end(), 0);
  const auto raised = top_of_rows(centred_over_rows(token_ov(w, at(w, head)), frequencies), sources, 1);
  std::ranges::stable_sort(sources, std::greater(), [&](int64_t s) { return raised[size_t(s)][0].value; });
  sources.resize(std::min(lines, sources.size()));
  return skip_trigrams(w, at(w, head), sources, k, frequencies);
}

std::string skip_trigram_table(const std::vector<SkipTrigrams>& rows, const Names& names, size_t entries) {
  const auto listed = [&](const std::vector<Entry>& all) {
    std::string text;
    for (const Entry& e : std::span(all).first(std::min(entries, all.size())))
      text += fmt::format("{} {:.1f}  ", names(e.token), e.value);
    return text;
  };
  std::string text;
  for (const SkipTrigrams& s : rows)
    text += fmt::format("    {:<12} | {:<52} | {}\n", names(s.source), listed(s.destinations), listed(s.outs));
  return text;
}

Gain largest_gain(const Weights& w, const SkipTrigrams& row, const std::vector<double>& frequencies, double others) {
  const auto probabilities = [&](int64_t source, int64_t destination) {
    std::vector<double> p = skip_trigram_logits(w, source, destination, frequencies, others);
    const double most = *std::ranges::max_element(p);
    double Z = 0;
    for (double& x : p) Z += x = std::exp(x - most);
    for (double& x : p) x /= Z;
    return p;
  };
  Gain best{{row.source, row.source, row.source}, -1};
  for (const Entry& d : row.destinations) {
    const auto with = probabilities(row.source, d.token), without = probabilities(d.token, d.token);
    for (const Entry& out : row.outs)
      if (const double gain = with[size_t(out.token)] - without[size_t(out.token)]; gain > best.probability)
        best = {{row.source, d.token, out.token}, gain};
  }
  return best;
}

std::vector<Borne> borne_out(const std::vector<int32_t>& text, const std::vector<Triple>& triples, int64_t window) {
  struct Count {
    int64_t seen[2] = {0, 0}, out[2] = {0, 0}, adjacent = 0;
  };
  std::vector<Count> counts(triples.size());
  std::multimap<int64_t, size_t> of_destination;
  for (size_t i = 0; i < triples.size(); ++i) of_destination.emplace(triples[i].destination, i);
  std::map<int64_t, int64_t> last;  // where each source stood last
  for (const Triple& t : triples) last[t.source] = -window - 1;
  for (int64_t at = 0; at + 1 < int64_t(text.size()); ++at) {
    const auto [begin, end] = of_destination.equal_range(text[size_t(at)]);
    for (auto i = begin; i != end; ++i) {
      const Triple& t = triples[i->second];
      const bool with = at - last[t.source] <= window;
      Count& c = counts[i->second];
      const bool follows = text[size_t(at) + 1] == t.out;
      ++c.seen[with], c.out[with] += follows, c.adjacent += follows && at - last[t.source] == 1;
    }
    if (const auto source = last.find(text[size_t(at)]); source != last.end()) source->second = at;
  }
  std::vector<Borne> found;  // with one count added on the side without, where an out may be unheard of
  for (const Count& c : counts)
    found.push_back({double(c.out[1]) / double(std::max<int64_t>(1, c.seen[1])),
                     double(c.out[0] + 1) / double(c.seen[0] + 1), c.seen[1],
                     double(c.adjacent) / double(std::max<int64_t>(1, c.out[1]))});
  return found;
}

std::string kind_of(const std::string& source, const std::string& out, const Borne& b) {
  const auto letters = [](const std::string& piece) {
    std::string word;
    for (char c : piece)
      if (std::isalpha(static_cast<unsigned char>(c))) word += char(std::tolower(static_cast<unsigned char>(c)));
    return word;
  };
  if (source == out || (!letters(out).empty() && letters(source) == letters(out))) return "copying";
  if (letters(source).empty() || letters(out).empty()) return "code";
  return b.adjacent >= 0.5 ? "one word" : "words";
}

GainReport report_gains(std::vector<Gain> gains, const std::vector<int32_t>& text, int64_t window, size_t lines,
                        const Names& names) {
  std::erase_if(gains, [](const Gain& g) { return g.probability < 0.02; });
  if (gains.empty()) return {"  no source raises the probability of anything by .02", NAN, NAN, 0};
  std::ranges::stable_sort(gains, std::greater(), &Gain::probability);
  std::vector<Triple> triples, exchanged;
  for (const Gain& g : gains) triples.push_back(g.triple);
  for (size_t i = 0; i < triples.size(); ++i) {
    exchanged.push_back(triples[i]);
    exchanged.back().out = triples[(i + triples.size() / 2) % triples.size()].out;
  }
  const auto median_lift = [](std::vector<Borne> all) {
    std::ranges::nth_element(all, all.begin() + int64_t(all.size() / 2), {}, &Borne::lift);
    return all[all.size() / 2].lift();
  };
  const std::vector<Borne> borne = borne_out(text, triples, window);
  GainReport r{"", median_lift(borne), median_lift(borne_out(text, exchanged, window)), 0};
  r.table = "  model: p    text: p with    without    kind       [source] ... [destination] -> [out]\n";
  std::map<std::string, int> kinds;
  for (size_t i = 0; i < triples.size(); ++i) {
    const auto [source, destination, out] = triples[i];
    const std::string kind = kind_of(names(source), names(out), borne[i]);
    ++kinds[kind], r.borne += double(borne[i].lift() >= 2) / double(triples.size());
    if (i < lines)
      r.table +=
          fmt::format("      {:+.3f}          {:.3f}      {:.3f}    {:<8}   {} ... {} -> {}\n", gains[i].probability,
                      borne[i].with, borne[i].without, kind, names(source), names(destination), names(out));
  }
  r.table += fmt::format("  of {} that raise a probability by .02 or more:", triples.size());
  for (const auto& [kind, n] : kinds) r.table += fmt::format(" {} {},", kind, n);
  r.table.back() = '\n';
  return r;
}

PlantedOuts planted_outs(const Transformer& model, const SkipTrigramLanguage& language, uint64_t seed) {
  Rng rng(seed, Stream::eval);
  const Batch batch = next_token_batch(language.sample(512, rng));
  Tokens without = batch.inputs;
  for (int32_t& id : without.ids)
    if (id < language.sources) id = int32_t(language.V() - 1);
  const NoGrad no_grad;
  const Tensor p = softmax(model.logits(batch.inputs).value()), q = softmax(model.logits(without).value());
  PlantedOuts mean{0, 0, 0};
  double n = 0;
  for (int64_t b = 0; b < batch.inputs.B; ++b) {
    int64_t source = -1;
    for (int64_t t = 0; t < batch.inputs.T; ++t) {
      const int32_t id = batch.inputs(b, t);
      if (id < language.sources) source = id;
      const int64_t d = id - language.sources;
      if (source < 0 || d < 0 || d >= language.destinations) continue;
      mean.right += double(p.at({b, t, language.out(source, d)}));
      for (int64_t other = 0; other < language.destinations; ++other)
        if (other != d) {
          mean.mistake += double(p.at({b, t, language.out(source, other)}));
          mean.mistake_without_source += double(q.at({b, t, language.out(source, other)}));
        }
      ++n;
    }
  }
  return {mean.right / n, mean.mistake / n, mean.mistake_without_source / n};
}

}  // namespace clearhead
