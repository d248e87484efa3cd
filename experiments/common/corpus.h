// Real text to train on: read, checked, split into what is trained on and what is held out, and encoded into two long
// rows of token ids, each document after a <bos>. No chance is involved: the same files give the same rows.
//
//     Corpus corpus = load_corpus({.set = "code"});              // fetched by scripts/fetch_text.sh
//     Corpus mine = load_corpus({.files = {"a.txt", "b.txt"}});  // your own UTF-8 files
//
// Documents are files, and within a file what a line holding a single form feed (\f) separates. Whole documents are
// held out, about 5 %. Where none can be spared, the longest ends in a held-out tail: 7 to 10 %, from a line's start.
// A byte order mark, and the \r of a Windows line end, are not text and are dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/common/tokenizer.h"
#include "tensor/random.h"

namespace clearhead {

struct CorpusOptions {
  std::string set = "code";             // "code" or "prose", under data_dir
  std::vector<std::string> files = {};  // your own files instead of a set
  Tokenizer::Kind tokenizer = Tokenizer::Kind::bpe;
  int vocab_size = 0;               // 0: 257 for byte, 1024 otherwise
  std::string tokenizer_file = "";  // a tokenizer.json to use instead of training one
  std::string data_dir = "data";
  std::string cache_dir = ".cache";  // token ids of earlier runs; "" for none
};

struct Corpus {
  std::string name;  // "code", "a.txt and 2 more"
  Tokenizer tokenizer;
  std::vector<int32_t> train, held_out;
  int64_t train_bytes = 0, held_out_bytes = 0;
  int64_t train_documents = 0, held_out_documents = 0;
  std::vector<std::string> notes;  // what is worth telling: duplicates dropped, a cache read, rebuilt or unwritable

  double bytes_per_token() const;  // over both
  std::string summary() const;     // one line: sizes, tokenizer, tokens
};

Corpus load_corpus(const CorpusOptions& options);

// Where scripts/fetch_text.sh puts "train.txt" or "held_out.txt" of "code" or "prose". Error if it is not there.
std::string text_file(const std::string& set, const std::string& part, const std::string& data_dir = "data");

// [B, T]: pieces of the row that start anywhere, as training wants them.
Tokens random_windows(const std::vector<int32_t>& stream, int64_t B, int64_t T, Rng& rng);

// [B, T]: pieces in order that do not overlap, as evaluation wants them: all that fit, or `most`, spread evenly.
Tokens consecutive_windows(const std::vector<int32_t>& stream, int64_t T, int64_t most = 0);

// Text as documents, and documents as train and held out. Views into the text that was passed.
std::vector<std::string_view> split_documents(std::string_view text);
struct Split {
  std::vector<std::string_view> train, held_out;
  std::string note;
};
Split hold_out(std::vector<std::string_view> documents);

}  // namespace clearhead
