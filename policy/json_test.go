package policy_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// textsAt returns the scalars at a path, by way of encoding/json.
func textsAt(body string, path []string) []string {
	if !json.Valid([]byte(body)) {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil
	}
	var texts []string
	collect(value, path, &texts)
	return texts
}

func collect(value any, path []string, texts *[]string) {
	if len(path) == 0 {
		switch value.(type) {
		case string, json.Number, bool:
			*texts = append(*texts, fmt.Sprint(value))
		}
		return
	}
	switch at := value.(type) {
	case map[string]any:
		if member, ok := at[path[0]]; ok {
			collect(member, path[1:], texts)
		}
	case []any:
		wanted, err := strconv.Atoi(path[0])
		for i, element := range at {
			if path[0] == "*" || err == nil && i == wanted {
				collect(element, path[1:], texts)
			}
		}
	}
}
