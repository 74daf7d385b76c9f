package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// KVAddress is where an engine's MoRI-IO connector listens.
type KVAddress struct {
	Host              string
	Handshake, Notify int
}

// ParseKVAddress reads host:IP,handshake:PORT,notify:PORT, as engines announce it (moriio_common.py, parse_moriio_zmq_address).
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
		return KVAddress{}, fmt.Errorf("%q is no address of the form host:IP,handshake:PORT,notify:PORT", s)
	}
	return a, nil
}

func kvPort(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%q is no port", s)
	}
	return n, nil
}

// String is the form that engines take.
func (a KVAddress) String() string {
	return "host:" + a.Host + ",handshake:" + strconv.Itoa(a.Handshake) + ",notify:" + strconv.Itoa(a.Notify)
}
