package certs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/caddyserver/certmagic"
)

// StorageError is something about files that a person has to put right.
type StorageError struct {
	File    string // the file or directory
	Problem string // what is wrong with it
	Hint    string // what to do
	Err     error  // the cause, if another error is
}

func (e *StorageError) Error() string {
	if e.Err != nil {
		return e.File + ": " + e.Problem + ": " + cause(e.Err).Error()
	}
	return e.File + ": " + e.Problem
}

func (e *StorageError) Unwrap() error { return e.Err }

// cause is an error without the path, which the message has already.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}

// makePrivate makes a directory below dir that only this user can look into. One
// that is there already is closed to others: mulligan is what writes in there.
// dir itself is made like that, but left as it is where it exists, for it may be
// a volume that is used for more.
func makePrivate(dir, name string) (string, error) {
	path := filepath.Join(dir, name)
	for _, d := range []string{dir, path} {
		if err := mkdir(d); err != nil {
			return "", &StorageError{d, "the directory cannot be made", "let data_dir name a directory that mulligan may write", err}
		}
	}
	return path, closeToOthers(path)
}

// mkdir makes a directory, and those above it, with the mode 0700 whatever the
// umask says.
func mkdir(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		return errors.New("there is something else of that name")
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := mkdir(filepath.Dir(path)); err != nil { // ends at / or at ., which are there
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // made by another process meanwhile
		}
		return err
	}
	return os.Chmod(path, 0o700)
}

// files is certmagic's file storage, but that its locks are closed to others too.
type files struct{ certmagic.FileStorage }

// Lock implements certmagic.Locker.
func (f *files) Lock(ctx context.Context, name string) error {
	err := f.FileStorage.Lock(ctx, name)
	if err == nil {
		f.closeLock(name)
	}
	return err
}

// TryLock implements certmagic.TryLocker.
func (f *files) TryLock(ctx context.Context, name string) (bool, error) {
	ok, err := f.FileStorage.TryLock(ctx, name)
	if ok && err == nil {
		f.closeLock(name)
	}
	return ok, err
}

// closeLock closes a lock's file. That it cannot is no reason to do without the
// lock: its directory is closed, and there is only a time in it.
func (f *files) closeLock(name string) {
	_ = closeToOthers(f.Filename(filepath.Join("locks", certmagic.StorageKeys.Safe(name)+".lock")))
}

// closeToOthers takes all permissions from the group and others. Volumes are
// often mounted with modes of their own (Kubernetes' fsGroup opens every file in
// them to a group), so it does so instead of refusing; it refuses what it cannot
// close.
func closeToOthers(path string) error {
	if runtime.GOOS == "windows" { // which has no modes
		return nil
	}
	mode, err := modeOf(path)
	if err != nil {
		return unreadable(path, err)
	}
	if mode&0o077 == 0 {
		return nil
	}
	err = os.Chmod(path, mode&^0o077)
	if err == nil {
		if mode, err = modeOf(path); err == nil && mode&0o077 == 0 {
			return nil
		}
	}
	return &StorageError{
		path, fmt.Sprintf("others may use it (mode %04o), and its mode cannot be changed", mode),
		"give it to the user that mulligan runs as, on a file system with permissions", err,
	}
}

func modeOf(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Mode().Perm(), nil
}

func unreadable(path string, err error) error {
	return &StorageError{path, "it cannot be read", "let the user that mulligan runs as read it", err}
}
