package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// KVAddress is the address of an engine's MoRI-IO connector.
type KVAddress struct {
	Host              string
	Handshake, Notify int
}

// ParseKVAddress parses host:IP,handshake:PORT,notify:PORT, the form that engines announce (moriio_common.py,
// parse_moriio_zmq_address).
func ParseKVAddress(s string) (a KVAddress, err error) {
	for _, part := range strings.Split(s, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "host":
			a.Host = value
		case "handshake":
			a.Handshake, err = kvPort(value)
		case "notify":
			a.Notify, err = kvPort(value)
		}
		if err != nil {
			return KVAddress{}, err
		}
	}
	if a.Host == "" || a.Handshake == 0 || a.Notify == 0 || strings.ContainsAny(a.Host, "_\"\\ \t") {
		return KVAddress{}, fmt.Errorf("%q is not of the form host:IP,handshake:PORT,notify:PORT", s)
	}
	return a, nil
}

func kvPort(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%q is not a port number from 1 to 65535", s)
	}
	return n, nil
}

// String is the form that engines accept.
func (a KVAddress) String() string {
	return "host:" + a.Host + ",handshake:" + strconv.Itoa(a.Handshake) + ",notify:" + strconv.Itoa(a.Notify)
}
