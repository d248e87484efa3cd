// Texts: what is held out stays out, the cache is what it stands for, and each bad file is one clear line.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "experiments/common/token_cache.h"
#include "tensor/error.h"
#include "tensor/parallel.h"
#include "tests/texts.h"

TEST(Documents, SplitAtLinesThatHoldOneFormFeed) {
  using Documents = std::vector<std::string_view>;
  EXPECT_EQ(split_documents("a\nb\n\f\nc\n"), (Documents{"a\nb", "c"}));
  EXPECT_EQ(split_documents("a\fb\n \f\nc"), (Documents{"a\fb\n \f\nc"}));
  EXPECT_EQ(split_documents("\f\na\n\f\n\f\nb\n\f"), (Documents{"a", "b"}));
  EXPECT_EQ(split_documents(""), Documents{});
}

TEST(Documents, NoneIsBothTrainedOnAndHeldOut) {
  std::vector<std::string> texts;
  for (uint64_t i = 0; i < 200; ++i) texts.push_back(babble(i, 10 + int(i % 20)));
  std::vector<std::string_view> documents(texts.begin(), texts.end());
  documents.push_back(texts[7]);  // the same document again, which a split could put on both sides
  const Split split = hold_out(documents);
  EXPECT_EQ(split.note, "repeated documents dropped: 1");
  EXPECT_EQ(split.train.size() + split.held_out.size(), 200u);
  std::set<std::string_view> train(split.train.begin(), split.train.end());
  size_t held = 0, total = 0;
  for (std::string_view text : split.held_out) {
    EXPECT_FALSE(train.contains(text));
    held += text.size();
  }
  for (const std::string& text : texts) total += text.size();
  EXPECT_GT(double(held), 0.04 * double(total));
  EXPECT_LE(double(held), 0.05 * double(total));

  std::reverse(documents.begin(), documents.end());  // the order of the files does not matter
  EXPECT_EQ(hold_out(documents).held_out, split.held_out);
}

TEST(Documents, ASingleOneIsSplitNearItsEnd) {
  const std::string lines = babble(1, 100), solid(3000, 'x');
  std::string line = lines;
  std::ranges::replace(line, '\n', ' ');
  std::string wide;
  for (int i = 0; i < 1000; ++i) wide += "你";
  for (const std::string& text : {lines, line, solid, wide}) {
    const Split split = hold_out({text});
    ASSERT_EQ(split.train.size(), 1u);
    ASSERT_EQ(split.held_out.size(), 1u);
    EXPECT_EQ(std::string(split.train[0]) + std::string(split.held_out[0]), text);
    EXPECT_GE(double(split.held_out[0].size()), 0.05 * double(text.size()));
    EXPECT_LE(double(split.held_out[0].size()), 0.10 * double(text.size()));
    EXPECT_EQ(first_invalid_utf8(split.held_out[0]), -1);
  }
  EXPECT_TRUE(hold_out({lines}).train[0].ends_with('\n'));
  EXPECT_TRUE(hold_out({line}).train[0].ends_with(' '));
}

TEST_F(CorpusFiles, LoadsSetsAndFilesWithABosPerDocument) {
  const std::string a = babble(1, 200), b = babble(2, 200), c = babble(3, 12);
  file("data/code/train.txt", a + "\f\n" + b);
  file("data/code/held_out.txt", c);
  CorpusOptions set = options({});
  const Corpus corpus = load_corpus(set);
  EXPECT_EQ(corpus.name, "code");
  EXPECT_EQ(corpus.train_documents, 2);
  EXPECT_EQ(std::ranges::count(corpus.train, corpus.tokenizer.bos()), 2);
  EXPECT_EQ(corpus.train[0], corpus.tokenizer.bos());
  EXPECT_EQ(corpus.tokenizer.decode(corpus.held_out) + "\n\n", c + "\n");
  EXPECT_TRUE(corpus.summary().starts_with("code: 0.0")) << corpus.summary();
  EXPECT_GT(corpus.bytes_per_token(), 1.5);

  const Corpus mine = load_corpus(options({file("a.txt", "\xEF\xBB\xBF" + a), file("b.txt", b), file("c.txt", c)}));
  EXPECT_EQ(mine.name, "a.txt and 2 more");
  EXPECT_EQ(mine.train_documents, 2);
  EXPECT_EQ(mine.held_out_documents, 1);
  EXPECT_EQ(mine.held_out, corpus.held_out);

  std::string windows;
  for (char letter : a) windows += letter == '\n' ? "\r\n" : std::string(1, letter);
  EXPECT_EQ(load_corpus(options({file("w.txt", windows)})).train, load_corpus(options({file("u.txt", a)})).train);
}

TEST_F(CorpusFiles, ThreadsDoNotChangeTheTokens) {
  std::string text;
  for (uint64_t i = 0; i < 1500; ++i) text += babble(i, 3) + "\f\n";
  CorpusOptions plain = options({file("a.txt", text)});
  plain.cache_dir = "";
  set_num_threads(1);
  const Corpus one = load_corpus(plain);
  set_num_threads(3);
  const Corpus three = load_corpus(plain);
  EXPECT_EQ(one.train, three.train);
  EXPECT_EQ(one.tokenizer.to_json(), three.tokenizer.to_json());
  EXPECT_FALSE(std::filesystem::exists(path("cache")));
}

TEST_F(CorpusFiles, BadFilesAreOneClearLine) {
  const std::string text = babble(1, 100), a = path("a.txt");
  EXPECT_EQ(complaint(""), a + ": is empty");
  EXPECT_EQ(complaint("\xEF\xBB\xBF"), a + ": is empty");
  EXPECT_EQ(complaint("short\n"), a + ": is too short: 5 bytes of text, at least 1000 are needed");
  EXPECT_EQ(complaint("\n\f\n\n"), a + ": is too short: 0 bytes of text, at least 1000 are needed");
  EXPECT_EQ(complaint("abc" + std::string(1, '\0') + text), a + ": is not text: a zero byte at offset 3");
  EXPECT_EQ(complaint("abcd\xE4\xBD" + text), a + ": is not UTF-8: byte 0xE4 at offset 4");
  EXPECT_EQ(error_of([&] { load_corpus(options({path("none.txt")})); }),
            path("none.txt") + ": cannot read: No such file or directory");
  EXPECT_EQ(error_of([&] { load_corpus(options({path("")})); }), path("") + ": is a folder, not a file");
  EXPECT_EQ(error_of([&] { load_corpus(options({})); }),
            path("data") + "/code/train.txt: is not there; fetch it with scripts/fetch_text.sh code");
  CorpusOptions poems = options({});
  poems.set = "poems";
  EXPECT_EQ(error_of([&] { load_corpus(poems); }), "corpus: unknown text 'poems': code, prose, or files of your own");
}

TEST_F(CorpusFiles, TheCacheIsUsedAndADamagedOneIsMadeAnew) {
  const CorpusOptions o = options({file("a.txt", babble(1, 300))});
  const Corpus fresh = load_corpus(o);
  EXPECT_TRUE(fresh.notes.empty());
  std::vector<std::filesystem::path> files(std::filesystem::directory_iterator(path("cache")), {});
  ASSERT_EQ(files.size(), 1u);  // and no temporary file
  const std::string cache = files[0].string(), whole = read_file(cache);

  const auto same_with = [&](const std::string& note) {
    const Corpus again = load_corpus(o);
    EXPECT_EQ(again.train, fresh.train);
    EXPECT_EQ(again.held_out, fresh.held_out);
    EXPECT_EQ(again.tokenizer.to_json(), fresh.tokenizer.to_json());
    EXPECT_EQ(again.notes, std::vector<std::string>{note});
  };
  same_with("token ids from " + cache);
  std::string lying = whole;  // the header claims more than there is, and the checksum is right
  lying.replace(lying.find("\"train\":") + 8, 1, "9");
  ASSERT_NE(lying, whole);
  std::string flipped = whole;
  flipped[whole.size() - 9] = char(flipped[whole.size() - 9] ^ 1);
  for (const std::string& bad :
       {std::string(), std::string("{}\n"), whole.substr(0, whole.size() / 2), flipped, lying, whole + "x"}) {
    write_file(cache, bad);
    same_with(cache + " is damaged: made anew");
    EXPECT_EQ(read_file(cache), whole);
  }

  // Another size or another text is another file.
  CorpusOptions larger = o;
  larger.vocab_size = 430;
  EXPECT_EQ(load_corpus(larger).tokenizer.vocab_size(), 430);
  file("a.txt", babble(2, 300));
  EXPECT_NE(load_corpus(o).train, fresh.train);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path("cache")), {}), 3);

  CorpusOptions unwritable = o;
  unwritable.cache_dir = path("a.txt") + "/cache";
  const Corpus uncached = load_corpus(unwritable);
  ASSERT_EQ(uncached.notes.size(), 1u);
  EXPECT_TRUE(uncached.notes[0].starts_with("token ids are not kept for the next run: ")) << uncached.notes[0];
}

TEST_F(CorpusFiles, AGivenTokenizerIsUsed) {
  const Tokenizer given = Tokenizer::train(Kind::word, babble(1, 300), 50);
  given.save(path("tokenizer.json"));
  CorpusOptions o = options({file("a.txt", babble(2, 300))});
  o.tokenizer_file = path("tokenizer.json");
  for (int run = 0; run < 2; ++run) EXPECT_EQ(load_corpus(o).tokenizer.to_json(), given.to_json());
}

TEST(Windows, AreWithinBoundsAndDeterministic) {
  std::vector<int32_t> stream(100);
  for (size_t i = 0; i < stream.size(); ++i) stream[i] = int32_t(i);
  const auto runs = [](const Tokens& w) {
    for (int64_t b = 0; b < w.B; ++b)
      for (int64_t t = 1; t < w.T; ++t) EXPECT_EQ(w(b, t), w(b, 0) + t);
  };
  Rng one(5, Stream::data), two(5, Stream::data);
  const Tokens random = random_windows(stream, 2000, 10, one);
  runs(random);
  EXPECT_EQ(random.ids, random_windows(stream, 2000, 10, two).ids);
  EXPECT_NE(random.ids, random_windows(stream, 2000, 10, two).ids);
  EXPECT_EQ(*std::ranges::min_element(random.ids), 0);  // the first and the last place are drawn too
  EXPECT_EQ(*std::ranges::max_element(random.ids), 99);

  const Tokens all = consecutive_windows(stream, 30), some = consecutive_windows(stream, 10, 4);
  runs(all);
  runs(some);
  EXPECT_EQ(all.shape(), Shape({3, 30}));
  EXPECT_EQ(all(2, 0), 60);
  EXPECT_EQ(some.shape(), Shape({4, 10}));
  EXPECT_EQ((std::vector<int32_t>{some(0, 0), some(1, 0), some(2, 0), some(3, 0)}),
            (std::vector<int32_t>{0, 20, 50, 70}));
  EXPECT_EQ(consecutive_windows(stream, 10, 99).B, 10);
  EXPECT_EQ(random_windows(stream, 1, 100, one).ids, stream);

  EXPECT_EQ(error_of([&] { random_windows(stream, 1, 101, one); }),
            "random_windows: a window of 101 tokens does not fit into a text of 100");
  EXPECT_EQ(error_of([&] { random_windows(stream, 0, 5, one); }),
            "random_windows: B and T must be positive, got B 0, T 5");
  EXPECT_EQ(error_of([&] { consecutive_windows(stream, 101); }),
            "consecutive_windows: a window of 101 tokens does not fit into a text of 100");
  EXPECT_EQ(error_of([&] { consecutive_windows(stream, 0); }),
            "consecutive_windows: T must be positive and most not negative, got T 0, most 0");
}
