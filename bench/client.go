package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// requestTimeout bounds one request, so that a router that hangs ends the run and not the patience of its user.
const requestTimeout = 5 * time.Second

// target is what is loaded.
type target struct {
	addr      string // host:port
	anyLength bool   // it writes answers anew, so that their length proves nothing
}

// client is one keep-alive connection to a router. It checks every answer: status 200 and the length that the
// upstream sent, whichever framing the router chose.
type client struct {
	addr string
	conn net.Conn // nil until the first request, and after an error
	r    *bufio.Reader
	want int64 // body bytes of a correct answer; 0: any
}

func newClient(to target, s scenario) *client {
	c := &client{addr: to.addr}
	if !to.anyLength {
		c.want = answerLength(s.Stream)
	}
	return c
}

// requestHead returns the head of a scenario's requests; session may be empty.
func requestHead(addr string, s scenario, session string) []byte {
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: " + addr +
		"\r\nUser-Agent: warmpath-bench\r\nAccept: */*\r\nContent-Type: application/json\r\n"
	if session != "" {
		head += "X-Session-ID: " + session + "\r\n"
	}
	return []byte(head + "Content-Length: " + strconv.Itoa(s.Size) + "\r\n\r\n")
}

// do sends one request and reads its answer. After an error the next call opens a new connection.
func (c *client) do(head, body []byte) error {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.addr, requestTimeout)
		if err != nil {
			return err
		}
		c.conn = conn
		c.r = bufio.NewReaderSize(conn, 32<<10)
	}
	again, err := c.exchange(head, body)
	if err != nil || !again {
		c.close()
	}
	return err
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

func (c *client) exchange(head, body []byte) (again bool, err error) {
	if err := c.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return false, err
	}
	parts := net.Buffers{head, body}
	if _, err := parts.WriteTo(c.conn); err != nil {
		return false, err
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return false, err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200")) {
		return false, fmt.Errorf("answer %q", bytes.TrimSpace(line))
	}
	length, again := int64(-1), true
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return false, err
		}
		if len(line) <= 2 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch value = bytes.TrimSpace(value); {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.ParseInt(string(value), 10, 32); err != nil {
				return false, err
			}
		case len(name) == len("Connection") && bytes.EqualFold(name, []byte("Connection")):
			again = !bytes.EqualFold(value, []byte("close"))
		}
	}
	got := length
	if length < 0 {
		got, err = skipChunks(c.r, &wish{said: true})
	} else {
		_, err = c.r.Discard(int(length))
	}
	if err == nil && got != c.want && (c.want > 0 || got == 0) {
		err = errors.New("answer of " + strconv.FormatInt(got, 10) + " bytes, want " + strconv.FormatInt(c.want, 10))
	}
	return again, err
}
