// An experiment program as its user meets it: exit codes, one clear line for every mistake, and runs that are
// interrupted or killed and end in the same bits as one that was not. Uses the program `induction`, with few steps.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "nn/files.h"
#include "tests/helpers.h"

using namespace clearhead;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

class Runs : public InFolder {
 protected:
  std::string file(const std::string& name, const std::string& out = "out") const {
    return folder + "/" + out + "/induction/seed-0/" + name;
  }

  pid_t start(const Words& options, const std::string& out = "out") const {
    Words words{CLEARHEAD_BIN_DIR "/induction", "--quick", "--quiet"};
    words.insert(words.end(), options.begin(), options.end());
    if (!out.empty()) words.insert(words.end(), {"--out", folder + "/" + out});
    std::vector<char*> argv;
    for (std::string& w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child != 0) return child;
    ::dup2(::open((folder + "/stdout").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDOUT_FILENO);
    ::dup2(::open((folder + "/stderr").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), STDERR_FILENO);
    ::execv(argv[0], argv.data());
    _exit(99);
  }
  // The exit code, or minus the signal.
  static int code_of(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int run(const Words& options, const std::string& out = "out") const { return code_of(start(options, out)); }
  // What a failing program said: exactly one line.
  std::string complaint() const {
    const std::string text = read_file(folder + "/stderr");
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    return text.substr(0, text.find('\n'));
  }

  size_t lines(const std::string& model) const {
    std::ifstream in(file("metrics.jsonl"));
    size_t n = 0;
    for (std::string line; std::getline(in, line);) n += line.find("\"model\":\"" + model + "\"") != std::string::npos;
    return n;
  }
  // Sends the signal as soon as the model's log has so many lines.
  int signal_at(const Words& options, int signal, const std::string& model, size_t n) const {
    const pid_t child = start(options);
    siginfo_t ended = {};
    while (lines(model) < n && ended.si_pid == 0) {
      ::usleep(2000);
      ::waitid(P_PID, id_t(child), &ended, WEXITED | WNOHANG | WNOWAIT);
    }
    ::kill(child, signal);
    return code_of(child);
  }

  // The same results as a run that nobody disturbed.
  void expect_same(const std::string& out, const std::string& reference) const {
    EXPECT_TRUE(read_file(file("model.safetensors", out)) == read_file(file("model.safetensors", reference)));
    EXPECT_EQ(read_file(file("metrics.jsonl", out)), read_file(file("metrics.jsonl", reference)));
    EXPECT_EQ(read_file(file("config.json", out)), read_file(file("config.json", reference)));
    auto a = nlohmann::json::parse(read_file(file("results.json", out))),
         b = nlohmann::json::parse(read_file(file("results.json", reference)));
    a.erase("wall_seconds"), b.erase("wall_seconds");
    EXPECT_EQ(a, b);
    EXPECT_GT(b["findings"].size(), 5u);
  }
  size_t temporaries() const {
    return size_t(std::ranges::count_if(fs::recursive_directory_iterator(folder),
                                        [](const auto& e) { return e.path().extension() == ".tmp"; }));
  }
};

bool ran(int code) { return code == 0 || code == 3; }  // with so few steps, findings may fail

TEST_F(Runs, InterruptedTwiceAndResumed) {
  const Words options{"--steps", "60"};
  ASSERT_TRUE(ran(run(options, "whole")));
  Words resume = options;
  resume.push_back("--resume");
  EXPECT_EQ(signal_at(options, SIGINT, "two_layers", 2), 130);
  EXPECT_EQ(complaint(), "induction: interrupted; nothing is lost, --resume goes on from here");
  EXPECT_TRUE(fs::exists(file("two_layers.checkpoint")));
  EXPECT_FALSE(fs::exists(file("results.json")));
  EXPECT_EQ(signal_at(resume, SIGTERM, "one_layer", 2), 128 + SIGTERM);
  EXPECT_EQ(temporaries(), 0u);
  ASSERT_TRUE(ran(run(resume)));
  expect_same("out", "whole");
  ASSERT_TRUE(ran(run(resume)));  // and once more, when there is nothing left to do
  expect_same("out", "whole");
}

TEST_F(Runs, KilledAgainAndAgain) {
  ASSERT_TRUE(ran(run({"--steps", "40"}, "whole")));
  for (const int milliseconds : {60, 200, 350, 500, 900}) {
    const pid_t child = start({"--steps", "40", "--resume"});
    ::usleep(useconds_t(milliseconds) * 1000);
    ::kill(child, SIGKILL);
    code_of(child);
  }
  fs::create_directories(fs::path(file("x")).parent_path());
  for (const char* name : {"two_layers.checkpoint.tmp", "results.json.tmp", "config.json.tmp"})
    write_file(file(name), "half a file");
  std::ofstream(file("metrics.jsonl"), std::ios::app)
      << R"({"model":"two_layers","st)";  // a line that the kill cut in two
  ASSERT_TRUE(ran(run({"--steps", "40", "--resume"})));
  expect_same("out", "whole");
  std::set<std::pair<std::string, int64_t>> seen;
  std::ifstream in(file("metrics.jsonl"));
  for (std::string line; std::getline(in, line);) {
    const auto entry = nlohmann::json::parse(line);
    EXPECT_TRUE(seen.emplace(entry.at("model").get<std::string>(), entry.at("step").get<int64_t>()).second) << line;
  }
  for (int64_t step = 0; step <= 40; step += 10) EXPECT_TRUE(seen.contains({"two_layers", step})) << step;
}

TEST_F(Runs, HaveTheSameBitsForAnyNumberOfThreads) {
  ASSERT_TRUE(ran(run({"--steps", "30", "--threads", "1"}, "one")));
  ASSERT_TRUE(ran(run({"--steps", "30", "--threads", "2"}, "two")));
  expect_same("one", "two");
}

TEST_F(Runs, ResumeRefusesOtherSettings) {
  EXPECT_EQ(signal_at({"--steps", "60"}, SIGINT, "two_layers", 1), 130);
  const std::string checkpoint = read_file(file("two_layers.checkpoint")), config = read_file(file("config.json"));
  EXPECT_EQ(run({"--steps", "70", "--resume"}), 1);
  EXPECT_EQ(complaint(), "induction: " + file("config.json") +
                             ": belongs to a run with other settings: /steps was 60, is now "
                             "70; give the same options, or another --out");
  EXPECT_TRUE(read_file(file("two_layers.checkpoint")) == checkpoint);
  EXPECT_EQ(read_file(file("config.json")), config);
  write_file(file("config.json"), config.substr(0, 20));
  EXPECT_EQ(run({"--steps", "60", "--resume"}), 1);
  EXPECT_EQ(complaint(), "induction: " + file("config.json") + ": is damaged: the settings in it are no JSON object");
}

TEST_F(Runs, ResumeRefusesATruncatedCheckpoint) {
  EXPECT_EQ(signal_at({"--steps", "60"}, SIGINT, "two_layers", 1), 130);
  const std::string whole = read_file(file("two_layers.checkpoint"));
  for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t(100), size_t(0)}) {
    fs::resize_file(file("two_layers.checkpoint"), size);
    EXPECT_EQ(run({"--steps", "60", "--resume"}), 1);
    EXPECT_TRUE(complaint().starts_with("induction: " + file("two_layers.checkpoint") + ": ")) << complaint();
    EXPECT_EQ(fs::file_size(file("two_layers.checkpoint")), size);
  }
}

TEST_F(Runs, UsageErrorsAreOneLineAndExitCode2) {
  const auto says = [&](const Words& options) {
    EXPECT_EQ(run(options), 2) << options[0];
    const std::string text = complaint();
    EXPECT_TRUE(text.starts_with("induction: ") && text.ends_with(" (see induction --help)")) << text;
    return text;
  };
  EXPECT_NE(says({"--nonsense"}).find("--nonsense"), std::string::npos);
  EXPECT_NE(says({"--steps", "-5"}).find("-5"), std::string::npos);
  EXPECT_NE(says({"--steps", "many"}).find("many"), std::string::npos);
  EXPECT_NE(says({"--threads", "0"}).find("--threads"), std::string::npos);
  EXPECT_NE(says({"--seed", "-1"}).find("--seed"), std::string::npos);
  EXPECT_NE(says({"--seeds", "0"}).find("--seeds"), std::string::npos);
  EXPECT_NE(says({"stray"}).find("stray"), std::string::npos);
  EXPECT_NE(says({"--config", folder + "/missing"}).find("missing"), std::string::npos);
  write_file(folder + "/config", "steps = 5\nlearning_rat = 3\n");
  EXPECT_NE(says({"--config", folder + "/config"}).find("learning_rat"), std::string::npos);
  write_file(folder + "/config", "steps = five\n");
  says({"--config", folder + "/config"});
  EXPECT_FALSE(fs::exists(folder + "/out"));
}

TEST_F(Runs, AConfigFileGivesOptions) {
  write_file(folder + "/config", "# few\nsteps = 3\nseed = 0\n");
  ASSERT_TRUE(ran(run({"--config", folder + "/config"})));
  EXPECT_EQ(nlohmann::json::parse(read_file(file("config.json"))).at("steps"), 3);
}

TEST_F(Runs, HelpIsNoError) {
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_NE(read_file(folder + "/stdout").find("--resume"), std::string::npos);
  EXPECT_EQ(read_file(folder + "/stderr"), "");
}

TEST_F(Runs, AnOutputFolderThatCannotBe) {
  write_file(folder + "/plain", "a file");
  for (const std::string& out : {folder + "/plain/below", std::string("/proc/clearhead")}) {
    EXPECT_EQ(run({"--steps", "3", "--out", out}, ""), 1);
    EXPECT_TRUE(complaint().starts_with("induction: " + out + "/induction/seed-0: cannot create the output folder: "))
        << complaint();
  }
  EXPECT_EQ(read_file(folder + "/plain"), "a file");
}

}  // namespace
