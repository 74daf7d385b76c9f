package rewrite

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/engine/handover"
)

// Stitch puts the prefiller's token before the decoder's answer, if the decoder continues after it. hold is asked for
// the memory of a whole answer, or of the longest event.
func Stitch(res *http.Response, first *handover.First, hold Hold) error {
	if e := res.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return errEncodedAnswer
	}
	stream := strings.HasPrefix(strings.ToLower(res.Header.Get("Content-Type")), "text/event-stream")
	join := handover.NewStitch(first, stream)
	if stream {
		res.Body = &stitched{from: res.Body, join: join, most: highest{hold: hold}}
		res.ContentLength = -1
		delete(res.Header, "Content-Length")
		return nil
	}
	body, err := ReadReply(res, hold)
	if err != nil {
		return err
	}
	whole := append(join.Write(body), join.Close()...)
	res.Body = &stitched{from: res.Body, ready: whole, err: io.EOF}
	res.ContentLength = int64(len(whole))
	if res.Header.Get("Content-Length") != "" {
		res.Header["Content-Length"] = []string{strconv.Itoa(len(whole))}
	}
	return nil
}

// stitched is an answer being changed by Stitch.
type stitched struct {
	from  io.ReadCloser
	join  *handover.Stitch
	most  highest
	ready []byte // to be returned by Read
	err   error  // returned after ready
}

// Read implements io.Reader.
func (s *stitched) Read(p []byte) (int, error) {
	for len(s.ready) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		n, err := s.from.Read(p)
		s.ready = bytes.Clone(s.join.Write(p[:n]))
		if none := s.most.reaches(s.join.Held()); none != nil {
			s.err = none
			continue
		}
		if s.err = err; err != nil {
			s.ready = append(s.ready, s.join.Close()...)
		}
	}
	n := copy(p, s.ready)
	s.ready = s.ready[n:]
	return n, nil
}

// Close implements io.Closer.
func (s *stitched) Close() error { return s.from.Close() }
