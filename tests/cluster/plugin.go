package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// device-plugin FILE RESOURCE=COUNT...: devices that are not there, as a vendor's plugin would offer
// them. Lines "RESOURCE ID" in the file name those that are broken.
func devicePlugin(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("a file and at least one resource are needed")
	}
	for _, arg := range args[1:] {
		resource, count, _ := strings.Cut(arg, "=")
		number, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("%s: %w", arg, err)
		}
		go (&devices{broken: args[0], resource: resource, count: number}).offer()
	}
	select {}
}

type devices struct {
	api.UnimplementedDevicePluginServer
	broken, resource string
	count            int
}

// The kubelet empties the folder of sockets when it starts, at any time: whatever goes wrong, all of
// it is done anew.
func (d *devices) offer() {
	socket := filepath.Join(api.DevicePluginPath, strings.ReplaceAll(d.resource, "/", "_")+".sock")
	for {
		if err := d.serve(socket); err != nil {
			fmt.Fprintln(os.Stderr, d.resource, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// Offers the devices until the socket is gone.
func (d *devices) serve(socket string) error {
	os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, d)
	go server.Serve(listener)
	defer server.Stop()
	kubelet, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer kubelet.Close()
	limited, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, err = api.NewRegistrationClient(kubelet).Register(limited, &api.RegisterRequest{
		Version: api.Version, Endpoint: filepath.Base(socket), ResourceName: d.resource,
	})
	for err == nil {
		time.Sleep(200 * time.Millisecond)
		_, err = os.Stat(socket)
	}
	return err
}

func (d *devices) list() []*api.Device {
	text, _ := os.ReadFile(d.broken)
	broken := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		broken[line] = true
	}
	var all []*api.Device
	for i := range d.count {
		id := fmt.Sprintf("%s-%d", filepath.Base(d.resource), i)
		health := api.Healthy
		if broken[d.resource+" "+id] {
			health = api.Unhealthy
		}
		all = append(all, &api.Device{ID: id, Health: health})
	}
	return all
}

func (d *devices) ListAndWatch(_ *api.Empty, stream api.DevicePlugin_ListAndWatchServer) error {
	for known := ""; ; time.Sleep(200 * time.Millisecond) {
		all := d.list()
		if now := fmt.Sprint(all); now != known {
			if err := stream.Send(&api.ListAndWatchResponse{Devices: all}); err != nil {
				return err
			}
			known = now
		}
	}
}

func (d *devices) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (d *devices) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		given := &api.ContainerAllocateResponse{Envs: map[string]string{}}
		switch {
		case d.resource == "nvidia.com/gpu":
			given.Envs["NVIDIA_VISIBLE_DEVICES"] = strings.Join(container.DevicesIds, ",")
		case strings.HasPrefix(d.resource, "rdma/"):
			// A device node, so that its way into the container is tried.
			given.Devices = []*api.DeviceSpec{{
				ContainerPath: "/dev/infiniband/uverbs0", HostPath: "/dev/null", Permissions: "rw",
			}}
		}
		answer.ContainerResponses = append(answer.ContainerResponses, given)
	}
	return answer, nil
}
