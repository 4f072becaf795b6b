package sse

import (
	"strings"
	"testing"
)

func TestFirst(t *testing.T) {
	for name, row := range map[string]struct {
		stream string
		want   Found
	}{
		"empty":                     {"", Nothing},
		"message":                   {"data: x\n\n", Event},
		"message, CRLF":             {"data: x\r\n\r\n", Event},
		"message, CR":               {"data: x\r\r", Event},
		"line ends mixed":           {"event: error\rdata: x\n\r", Error},
		"one line end is no blank":  {"data: x\r\n", Nothing},
		"not ended":                 {"event: error\ndata: x\n", Nothing},
		"no space":                  {"event:error\ndata:x\n\n", Error},
		"two spaces":                {"event:  error\ndata: x\n\n", Event},
		"space behind":              {"event: error \ndata: x\n\n", Event},
		"error without data":        {"event: error\n\n", Error},
		"data before type":          {"data: x\nevent: error\n\n", Error},
		"last type counts":          {"event: error\nevent: ok\ndata: x\n\n", Event},
		"type taken back":           {"event: error\nevent\ndata: x\n\n", Event},
		"type longer than error":    {"event: errors\ndata: x\n\n", Event},
		"type much longer":          {"event: errorerrorerrorerror\ndata: x\n\n", Event},
		"type in capitals":          {"event: Error\ndata: x\n\n", Event},
		"field in capitals":         {"EVENT: error\nDATA: x\n\n", Nothing},
		"comments":                  {": hi\n\n:\n\n:event: error\n\n", Nothing},
		"a long comment":            {":" + strings.Repeat("data: x", 999) + "\n\n", Nothing},
		"comment in an event":       {": hi\nevent: error\n: hi\ndata: x\n\n", Error},
		"ping":                      {"event: ping\ndata: {\"type\": \"ping\"}\n\n", Nothing},
		"ping, then error":          {"event: ping\ndata: {}\n\nevent: error\ndata: x\n\n", Error},
		"ping, then message":        {"event: ping\ndata: {}\n\ndata: x\n\n", Event},
		"message, then error":       {"data: x\n\nevent: error\ndata: x\n\n", Event},
		"no data":                   {"event: ok\n\n", Nothing},
		"type of one without data":  {"event: ping\n\ndata: x\n\n", Event},
		"data of none":              {"data\n\n", Event},
		"empty data":                {"data:\n\n", Event},
		"retry and id alone":        {"retry: 10\nid: 3\n\n", Nothing},
		"id that speaks of data":    {"id: data: event: error\n\n", Nothing},
		"long data":                 {"data: " + strings.Repeat("x", 9999) + "\n\n", Event},
		"long unknown field":        {strings.Repeat("data", 9) + ": x\n\n", Nothing},
		"name with data in front":   {"dataset: x\n\n", Nothing},
		"byte order mark":           {"\xEF\xBB\xBFevent: error\n\n", Error},
		"mark, longer type":         {"\xEF\xBB\xBFevent: errors\ndata: x\n\n", Event},
		"mark, much longer type":    {"\xEF\xBB\xBFevent: errorss\ndata: x\n\n", Event},
		"mark alone":                {"\xEF\xBB\xBF\n\n", Nothing},
		"two marks":                 {"\xEF\xBB\xBF\xEF\xBB\xBFevent: error\n\n", Nothing},
		"mark in the second line":   {"\n\xEF\xBB\xBFevent: error\n\n", Nothing},
		"space before the name":     {" data: x\n\n", Nothing},
		"blank lines":               {"\n\n\r\n\r\rdata: x\n\n", Event},
		"error in what openai says": {"data: {\"error\": {}}\n\n", Event},
	} {
		t.Run(name, func(t *testing.T) {
			var f First
			if got := f.Feed([]byte(row.stream)); got != row.want || f.Found() != row.want {
				t.Errorf("%d, then %d; want %d", got, f.Found(), row.want)
			}
			if got := reference(row.stream); got != row.want {
				t.Errorf("the reference says %d", got)
			}
		})
	}
}

func TestIsStream(t *testing.T) {
	for value, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream ; charset=utf-8": true, " text/event-stream;x": true,
		"": false, "text/event-streams": false, "text/plain; text/event-stream": false, "application/json": false,
	} {
		if IsStream(value) != want {
			t.Errorf("%q", value)
		}
	}
}

// reference is the standard's way of interpreting a stream, on a whole one.
func reference(stream string) Found {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	lines := strings.Split(strings.ReplaceAll(stream, "\r", "\n"), "\n")
	var data, typed string
	for _, line := range lines[:len(lines)-1] { // the last did not end
		if line == "" {
			switch {
			case typed == "error":
				return Error
			case data != "" && typed != "ping":
				return Event
			}
			data, typed = "", ""
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			typed = value
		case "data":
			data += value + "\n"
		}
	}
	return Nothing
}

// FuzzFirst holds the reader, which gets a stream in pieces, against the
// reference, which gets it as a whole.
func FuzzFirst(f *testing.F) {
	for _, stream := range []string{
		"data: x\n\n", "event: error\r\ndata: {}\r\n\r\n", ": ping\n\nevent: ping\ndata\n\nevent:error\r\r",
		"\xEF\xBB\xBFevent: errorXY\n\n", "retry: 1\nid: 2\n\ndata\n\n",
	} {
		f.Add([]byte(stream), uint64(0x9e3779b97f4a7c15))
	}
	f.Fuzz(func(t *testing.T, stream []byte, cuts uint64) {
		want := reference(string(stream))
		var whole, cut First
		if got := whole.Feed(stream); got != want {
			t.Errorf("whole: %d, want %d", got, want)
		}
		for rest := stream; len(rest) > 0; {
			n := min(int(cuts%5), len(rest)) // an empty piece now and then
			cuts = cuts>>3 | cuts<<61
			if n == 0 && cuts%5 == 0 {
				n = 1 // cuts of nothing else would never end
			}
			cut.Feed(rest[:n])
			rest = rest[n:]
		}
		if got := cut.Found(); got != want {
			t.Errorf("in pieces: %d, want %d", got, want)
		}
	})
}
