// Command image packs programs for Linux into one OCI image for several architectures, from nothing and without a
// container engine. The same programs give the same image, byte for byte.
//
//	image -out dist/image.tar -tag 0.1.0 -at 2026-11-24T10:00:00Z amd64=dist/warmpath_linux_amd64_v1/warmpath arm64=...
//
// The archive is an OCI layout: "skopeo copy oci-archive:dist/image.tar docker://...", "podman load -i dist/image.tar".
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nobody is the user that the program runs as.
const nobody = "65532:65532"

// roots are where the certificates that engines and registries are checked against may lie on the machine that builds.
var roots = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "image.tar", "archive to write")
	tag := flags.String("tag", "latest", "version that the image is called by")
	at := flags.String("at", "1970-01-01T00:00:00Z", "time of the commit, RFC 3339")
	certs := flags.String("certs", "", "root certificates; default: this machine's")
	if err := flags.Parse(args); err != nil {
		return err
	}
	when, err := time.Parse(time.RFC3339, *at)
	if err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("name programs as ARCHITECTURE=FILE")
	}
	trusted, err := certificates(*certs)
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arg := range flags.Args() {
		arch, file, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("%q is not ARCHITECTURE=FILE", arg)
		}
		program, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		image, err := pack(arch, program, trusted, *tag, when)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return write(index, *out, *tag, when)
}

// certificates are the roots to trust, from a file or this machine.
func certificates(file string) ([]byte, error) {
	if file != "" {
		return os.ReadFile(file)
	}
	for _, name := range roots {
		if b, err := os.ReadFile(name); err == nil {
			return b, nil
		}
	}
	return nil, errors.New("no root certificates on this machine; name them with -certs")
}

// pack is the image of one architecture: the program, root certificates, an empty /tmp and /var/lib/warmpath.
func pack(arch string, program, trusted []byte, tag string, at time.Time) (v1.Image, error) {
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	add := func(name string, mode int64, content []byte) {
		h := &tar.Header{
			Name: name, Mode: mode, Size: int64(len(content)), ModTime: at, Typeflag: tar.TypeReg,
			Format: tar.FormatPAX,
		}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if name == "var/lib/warmpath/" {
			h.Uid, h.Gid = 65532, 65532
		}
		if err := t.WriteHeader(h); err == nil {
			_, _ = t.Write(content) // into memory
		}
	}
	add("etc/", 0o755, nil)
	add("etc/ssl/", 0o755, nil)
	add("etc/ssl/certs/", 0o755, nil)
	add("etc/ssl/certs/ca-certificates.crt", 0o644, trusted)
	add("tmp/", 0o1777, nil)
	add("var/", 0o755, nil)
	add("var/lib/", 0o755, nil)
	add("var/lib/warmpath/", 0o700, nil)
	add("warmpath", 0o755, program)
	if err := t.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.Append(image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "warmpath release/image"},
	}); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, config(image, arch, tag, at))
}

func config(image v1.Image, arch, tag string, at time.Time) *v1.ConfigFile {
	c := &v1.ConfigFile{}
	if before, err := image.ConfigFile(); err == nil {
		c = before.DeepCopy()
	}
	c.OS, c.Architecture, c.Created = "linux", arch, v1.Time{Time: at}
	c.Config = v1.Config{
		User: nobody, Entrypoint: []string{"/warmpath"}, WorkingDir: "/",
		ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9190/tcp": {}},
		Env:          []string{"PATH=/", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Labels: map[string]string{
			"org.opencontainers.image.title": "warmpath", "org.opencontainers.image.version": tag,
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/warmpath/warmpath",
		},
	}
	return c
}

// write makes an archive of the image's layout, its files in order and of one time.
func write(index v1.ImageIndex, out, tag string, at time.Time) error {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag,
	})); err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	t := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error { // in order of names
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{
			Name: inside, Mode: 0o644, Size: int64(len(b)), ModTime: at, Typeflag: tar.TypeReg,
		}); err != nil {
			return err
		}
		_, err = t.Write(b)
		return err
	})
	return errors.Join(err, t.Close(), f.Close())
}
