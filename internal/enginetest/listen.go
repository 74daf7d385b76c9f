package enginetest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Listen opens a port for the engine and returns its base URL. Port 0 takes a free one. Close closes it.
func (s *Server) Listen(addr string) (url string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return "", errors.New("the engine is closed")
	case s.http != nil:
		return "", errors.New("the engine listens already")
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return "", err
	}
	s.addr = ln.Addr().String()
	host, _, _ := net.SplitHostPort(s.addr)
	if s.opts.KVPort > 0 {
		if _, err := s.ListenKV(host); err != nil {
			_ = ln.Close()
			return "", err
		}
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: 30 * time.Second}
	s.serve(ln)
	if err := s.connector.Listen(host); err != nil {
		return "", err
	}
	return "http://" + s.addr, nil
}

// serve takes connections of a listener; mu is held.
func (s *Server) serve(ln net.Listener) {
	s.listener = ln
	srv := s.http
	s.serving.Add(1)
	go func() {
		defer s.serving.Done()
		_ = srv.Serve(ln) // ends when the listener or the server is closed
	}()
}

// free gives up a port that is held; mu is held.
func (s *Server) free() {
	if s.release != nil {
		s.release()
		s.release = nil
	}
}

// openPort opens or closes the port of Listen. Running requests continue; their connections close afterwards.
func (s *Server) openPort(open bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.http == nil || s.closed || open == (s.listener != nil) {
		return nil
	}
	if !open {
		s.release = hold(s.listener)
		err := s.listener.Close()
		s.listener = nil
		s.http.SetKeepAlivesEnabled(false) // closes the idle connections
		return err
	}
	ln, err := listenAgain(s.addr)
	if err != nil {
		return fmt.Errorf("opening the port again: %w", err)
	}
	s.free()
	s.http.SetKeepAlivesEnabled(true)
	s.serve(ln)
	return nil
}
