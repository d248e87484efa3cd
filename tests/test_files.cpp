// Files: a write is whole or not there, whatever fails in between: disk, permissions, sync, rename.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "nn/files.h"
#include "tensor/error.h"
#include "tests/helpers.h"

using namespace clearhead;
namespace fs = std::filesystem;

// These definitions take the place of the C library's, to see the order of the calls and to make one of them fail.
static std::vector<std::string> calls;
static std::string failing;
static int real_or_failing(const char* call, long result) {
  calls.emplace_back(call);
  if (call != failing) return int(result);
  errno = EIO;
  return -1;
}
extern "C" int fsync(int file) {
  struct stat what = {};
  fstat(file, &what);
  return real_or_failing(S_ISDIR(what.st_mode) ? "sync folder" : "sync file", syscall(SYS_fsync, file));
}
extern "C" int rename(const char* from, const char* to) noexcept {
  if (failing == "rename") return real_or_failing("rename", 0);
  return real_or_failing("rename", syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

namespace {

class Files : public InFolder {
 protected:
  void SetUp() override { calls.clear(), failing.clear(); }
  size_t count() const { return size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator())); }
};

TEST_F(Files, AreReplacedWhole) {
  write_file(path("a"), "old");
  write_file(path("a"), std::string("new\0bytes", 9));
  EXPECT_EQ(read_file(path("a")), std::string("new\0bytes", 9));
  write_file(path("a"), "");
  EXPECT_EQ(read_file(path("a")), "");
  EXPECT_EQ(count(), 1u);
}

// The numbers must be on disk before the name points to them, and the name before we say that it is done.
TEST_F(Files, AreSyncedThenRenamed) {
  write_file(path("a"), "x");
  EXPECT_EQ(calls, (std::vector<std::string>{"sync file", "rename", "sync folder"}));
}

TEST_F(Files, SurviveAFailingDisk) {
  write_file(path("a"), "old");
  for (const char* call : {"sync file", "rename"}) {
    failing = call;
    EXPECT_EQ(error_of([&] { write_file(path("a"), "new"); }), path("a") + ": cannot write: Input/output error")
        << call;
    EXPECT_EQ(read_file(path("a")), "old");
    EXPECT_EQ(count(), 1u) << "a temporary file was left behind";
  }
  failing = "sync folder";  // some file systems cannot
  EXPECT_EQ(error_of([&] { write_file(path("a"), "new"); }), "(no error)");
}

TEST_F(Files, SurviveAFullDisk) {
  write_file(path("a"), "old");
  rlimit before{}, small{};
  getrlimit(RLIMIT_FSIZE, &before);
  small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string text = error_of([&] { write_file(path("a"), std::string(5000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(text, path("a") + ": cannot write: File too large");
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, CannotBeWrittenEverywhere) {
  write_file(path("a"), "old");
  EXPECT_EQ(error_of([&] { write_file(path("no/a"), "x"); }),
            path("no/a") + ": cannot write: No such file or directory");
  EXPECT_EQ(error_of([&] { write_file(path("a/b"), "x"); }), path("a/b") + ": cannot write: Not a directory");
  EXPECT_NE(error_of([&] { write_file(folder, "x"); }).find("cannot write"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder + ".tmp"));
  if (geteuid() == 0) return;  // root may write to read-only folders
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(error_of([&] { write_file(path("a"), "x"); }), path("a") + ": cannot write: Permission denied");
  fs::permissions(folder, fs::perms::owner_all);
}

TEST_F(Files, CannotBeReadEverywhere) {
  EXPECT_EQ(error_of([&] { read_file(path("no")); }), path("no") + ": cannot read: No such file or directory");
  EXPECT_EQ(error_of([&] { read_file(folder); }), folder + ": is a folder, not a file");
}

}  // namespace
