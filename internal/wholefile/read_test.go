//go:build unix

package wholefile_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/warmpath/warmpath/internal/wholefile"
)

// TestRead: Read returns whatever kind of file a name stands for, and never holds more bytes than it may.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	around := filepath.Join(dir, "around")
	if err := os.Symlink(around, around); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, fault string }{
		file:                        {text: "text"},
		link:                        {text: "text"},
		pipe:                        {}, // without a writer
		around:                      {fault: "symbolic links"},
		dir:                         {fault: "is a directory"},
		filepath.Join(dir, "none"):  {fault: "no such file"},
		filepath.Join(file, "none"): {fault: "not a directory"},
		"/dev/zero":                 {fault: "is larger than 100 bytes"},
		"/dev/null":                 {},
	} {
		b, err := wholefile.Read(name, 100)
		said := err != nil && c.fault != "" && strings.Contains(err.Error(), c.fault)
		if string(b) != c.text || said != (c.fault != "") || !said && err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if _, err := wholefile.Read(file, 3); err == nil {
		t.Error("4 bytes are read where 3 may be")
	}
}

// TestReadPipe: what a pipe says whose other end somebody has, as a shell's <(command), is read to its end.
func TestReadPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	f, err := wholefile.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := w.WriteString("listen: x"); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 9)
	if _, err := f.Read(b); err != nil || string(b) != "listen: x" {
		t.Errorf("%q, %v", b, err)
	}
	_ = w.Close()
	if n, err := f.Read(b); n != 0 || err == nil {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

// TestEveryReader: a file that somebody names is opened here alone, since the plain ways wait for ever at a pipe.
func TestEveryReader(t *testing.T) {
	plain := map[string][]string{
		"os": {"Open", "ReadFile"}, "tls": {"LoadX509KeyPair"}, "ioutil": {"ReadFile"},
	}
	spared := []string{
		"cmd/warmpath/files.go",             // traces of simulate: a pipe may take its time
		"internal/wholelines/wholelines.go", // the end of an ordinary file, which it has open
		"internal/wholefile/wholefile.go",   // it is here
		"internal/madeby/madeby.go",         // pages of the repository, for tests
	}
	files := 0
	for _, root := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(name string, _ fs.DirEntry, err error) error {
			rel, _ := filepath.Rel("../..", name)
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
				slices.Contains(spared, filepath.ToSlash(rel)) {
				return err
			}
			files++
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if x, ok := n.(*ast.SelectorExpr); ok {
					if of, ok := x.X.(*ast.Ident); ok && slices.Contains(plain[of.Name], x.Sel.Name) {
						t.Errorf("%s uses %s.%s: wholefile.Read does not wait for ever", rel, of.Name, x.Sel.Name)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 100 {
		t.Errorf("only %d files were read", files)
	}
}

// TestWriteThrough: a link and a pipe stay what they are, and get the data.
func TestWriteThrough(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	for _, err := range []error{
		os.WriteFile(file, []byte("before"), 0o600), os.Symlink("file", link), syscall.Mkfifo(pipe, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := wholefile.Write(pipe, []byte("lost")); err == nil {
		t.Error("a pipe without a reader was written to")
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, name := range []string{link, pipe} {
		before, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := wholefile.Write(name, []byte("data")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.Lstat(name); err != nil || after.Mode() != before.Mode() {
			t.Errorf("%s is %v now, %v", name, after.Mode(), err)
		}
	}
	if got, err := io.ReadAll(reader); err != nil || string(got) != "data" {
		t.Errorf("the pipe got %q, %v", got, err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "data" {
		t.Errorf("the file behind the link has %q, %v", got, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 3 {
		t.Errorf("left behind: %v", files)
	}
}
