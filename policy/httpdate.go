package policy

import (
	"strings"
	"time"
)

// parseHTTPDate reads the three forms of RFC 9110 5.6.7. now settles the
// century of the form that leaves it out.
func parseHTTPDate(s string, now time.Time) (time.Time, bool) {
	d := dateReader{rest: s}
	name, comma := d.until(", ")
	switch {
	case !comma:
		d.rest = s
		d.asctime()
	case len(name) == 3:
		d.fixdate(name)
	default:
		d.rfc850(name, now)
	}
	if d.bad || d.rest != "" {
		return time.Time{}, false
	}
	return d.date()
}

const months = "JanFebMarAprMayJunJulAugSepOctNovDec"

var weekdays = [...]string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}

// dateReader consumes a date from its front; bad once something did not fit.
// The weekday must be one, but not the right one: it says nothing more.
type dateReader struct {
	rest                             string
	bad                              bool
	year, month, day, hour, min, sec int
}

// fixdate reads what follows the weekday in "Sun, 06 Nov 1994 08:49:37 GMT".
func (d *dateReader) fixdate(weekday string) {
	d.weekday(weekday, true)
	d.day = d.number(2)
	d.skip(" ")
	d.monthName()
	d.skip(" ")
	d.year = d.number(4)
	d.skip(" ")
	d.clock()
	d.skip(" GMT")
}

// rfc850 reads what follows the weekday in "Sunday, 06-Nov-94 08:49:37 GMT".
func (d *dateReader) rfc850(weekday string, now time.Time) {
	d.weekday(weekday, false)
	d.day = d.number(2)
	d.skip("-")
	d.monthName()
	d.skip("-")
	d.year = d.number(2)
	d.skip(" ")
	d.clock()
	d.skip(" GMT")
	// More than 50 years ahead means the century before; and, since clocks also
	// pass from 99 to 00, more than 50 years ago the one after.
	d.year += now.Year() / 100 * 100
	switch t, _ := d.date(); {
	case t.After(now.AddDate(50, 0, 0)):
		d.year -= 100
	case t.Before(now.AddDate(-50, 0, 0)):
		d.year += 100
	}
}

// asctime reads "Sun Nov  6 08:49:37 1994".
func (d *dateReader) asctime() {
	weekday, _ := d.until(" ")
	d.weekday(weekday, true)
	d.monthName()
	d.skip(" ")
	if strings.HasPrefix(d.rest, " ") {
		d.skip(" ")
		d.day = d.number(1)
	} else {
		d.day = d.number(2)
	}
	d.skip(" ")
	d.clock()
	d.skip(" ")
	d.year = d.number(4)
}

func (d *dateReader) clock() {
	d.hour = d.number(2)
	d.skip(":")
	d.min = d.number(2)
	d.skip(":")
	d.sec = d.number(2)
}

// date returns what was read, unless no calendar has it. Second 60, a leap
// second, is the first of the next minute.
func (d *dateReader) date() (time.Time, bool) {
	t := time.Date(d.year, time.Month(d.month), d.day, d.hour, d.min, d.sec, 0, time.UTC)
	real := d.day >= 1 && d.day <= daysIn(d.year, d.month) && d.hour <= 23 && d.min <= 59 && d.sec <= 60
	return t, real
}

func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// until consumes what stands before sep, and sep.
func (d *dateReader) until(sep string) (string, bool) {
	before, after, found := strings.Cut(d.rest, sep)
	d.rest = after
	return before, found
}

func (d *dateReader) skip(s string) {
	rest, ok := strings.CutPrefix(d.rest, s)
	d.rest = rest
	d.bad = d.bad || !ok
}

func (d *dateReader) number(digits int) int {
	if len(d.rest) < digits {
		d.bad = true
		return 0
	}
	n := 0
	for i := range digits {
		d.bad = d.bad || !isDigit(d.rest[i])
		n = n*10 + int(d.rest[i]-'0')
	}
	d.rest = d.rest[digits:]
	return n
}

func (d *dateReader) monthName() {
	if len(d.rest) < 3 {
		d.bad = true
		return
	}
	i := strings.Index(months, d.rest[:3])
	d.bad = d.bad || i < 0 || i%3 != 0
	d.month = i/3 + 1
	d.rest = d.rest[3:]
}

// weekday checks the name of a weekday, of which short leaves three letters.
func (d *dateReader) weekday(name string, short bool) {
	for _, day := range weekdays {
		if short && name == day[:3] || !short && name == day {
			return
		}
	}
	d.bad = true
}
