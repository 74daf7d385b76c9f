package main

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/warmpath/warmpath/internal/live"
	"github.com/warmpath/warmpath/internal/proxy"
	"github.com/warmpath/warmpath/policy/basic"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

// TestLeavingOverHTTP2: a router that leaves its socket to the next one says so with the next answer of each connection
// over HTTP/2, by GOAWAY, and answers.
func TestLeavingOverHTTP2(t *testing.T) {
	var d doors
	d.ctx = t.Context()
	d.open(proxy.New(proxy.Options{
		Fleet: live.New(route.New(route.Config{Policy: basic.NewRandom}), time.Now), Transport: http.DefaultTransport,
		Log: slog.New(slog.DiscardHandler), Parser: new(prompt.Parser),
	}), func() {})
	front := httptest.NewUnstartedServer(&d)
	front.Config.Protocols = new(http.Protocols)
	front.Config.Protocols.SetUnencryptedHTTP2(true)
	front.Start()
	defer front.Close()
	c, err := net.Dial("tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, http2.ClientPreface)
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	_ = f.WriteSettings()
	for n, leaving := range []bool{false, true} {
		d.leaving.Store(leaving)
		var block bytes.Buffer
		fields := hpack.NewEncoder(&block)
		for _, h := range []hpack.HeaderField{
			{Name: ":method", Value: "GET"},
			{Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: "x"},
			{Name: ":path", Value: "/healthz"},
		} {
			h.Sensitive = true // keeps it out of the table, since each block has an encoder of its own
			_ = fields.WriteField(h)
		}
		id := uint32(2*n + 1)
		_ = f.WriteHeaders(http2.HeadersFrameParam{
			StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: true,
		})
		away, answered := false, false
		for !answered || leaving && !away {
			frame, err := f.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.GoAwayFrame:
				away = true
			case *http2.DataFrame:
				answered = frame.StreamEnded()
			}
		}
		if away != leaving {
			t.Errorf("leaving %v: GOAWAY %v", leaving, away)
		}
	}
}
