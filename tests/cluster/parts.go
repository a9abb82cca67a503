package main

import (
	"errors"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcd FOLDER URL PEER-URL: the store of the API server. What it holds need not survive the machine.
func etcd(args []string) error {
	if len(args) != 3 {
		return errors.New("etcd takes a folder, its address and the address for peers")
	}
	config := embed.NewConfig()
	config.Dir = args[0]
	config.UnsafeNoFsync = true
	config.LogLevel = "error"
	if err := addresses(config, args[1], args[2]); err != nil {
		return err
	}
	server, err := embed.StartEtcd(config)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	select {
	case <-stop:
		server.Close()
		return nil
	case err := <-server.Err():
		return err
	}
}

func addresses(config *embed.Config, client, peer string) error {
	c, err := parse(client)
	if err != nil {
		return err
	}
	p, err := parse(peer)
	if err != nil {
		return err
	}
	config.ListenClientUrls, config.AdvertiseClientUrls = c, c
	config.ListenPeerUrls, config.AdvertisePeerUrls = p, p
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	return nil
}

func parse(text string) ([]url.URL, error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	return []url.URL{*parsed}, nil
}

// dns -conf FILE: names of Services and pods, CoreDNS with the few plugins that takes.
func dns([]string) error {
	coremain.Run()
	return nil
}

func init() {
	dnsserver.Directives = []string{"bind", "ready", "errors", "kubernetes"}
}

// pause: the first process of a pod, or of a node: it waits, and reaps whoever is left to it.
func pause([]string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	for {
		select {
		case got := <-stop:
			if got != syscall.SIGCHLD {
				return nil
			}
		case <-time.After(time.Second):
		}
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if pid <= 0 || err != nil {
				break
			}
		}
	}
}
