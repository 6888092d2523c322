# SPDX-License-Identifier: Apache-2.0
"""A device plugin of a few lines, to try kubelets with: the real one and the stub."""

import queue
from concurrent.futures import ThreadPoolExecutor

from kubelet_stub import dp, grpc


class ToyPlugin:
    """Serves devices of one resource in the folder of a kubelet's sockets; refuses: it does not even say its options."""

    def __init__(self, folder, resource, name, refuses=False):
        self.folder, self.resource, self.name, self.refuses = folder, resource, name, refuses
        self.calls = []
        self.streams = []
        self.devices = {}
        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(self.options, dp.Empty.FromString, dp.DevicePluginOptions.SerializeToString),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(self.watch, dp.Empty.FromString, dp.ListAndWatchResponse.SerializeToString),
            "Allocate": grpc.unary_unary_rpc_method_handler(self.allocate, dp.AllocateRequest.FromString, dp.AllocateResponse.SerializeToString),
        }
        self.threads = ThreadPoolExecutor(8)
        self.server = grpc.server(self.threads)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods),))
        assert self.server.add_insecure_port(f"unix:{folder / name}")
        self.server.start()

    def options(self, request, context):
        self.calls.append("options")
        if self.refuses:
            context.abort(grpc.StatusCode.UNAVAILABLE, "no options here")
        return dp.DevicePluginOptions()

    def watch(self, request, context):
        self.calls.append("watch")
        changes = queue.Queue()
        self.streams.append(changes)
        changes.put(self.devices)
        while (devices := changes.get()) is not None:
            yield dp.ListAndWatchResponse(devices=[dp.Device(ID=i, health="Healthy" if well else "Unhealthy") for i, well in devices.items()])

    def allocate(self, request, context):
        answers = [dp.ContainerAllocateResponse(envs={"TOY": ",".join(c.devices_ids)}) for c in request.container_requests]
        return dp.AllocateResponse(container_responses=answers)

    def show(self, **devices):
        """Tells every stream what there is: show(a=True) for a well device."""
        self.devices = devices
        for stream in self.streams:
            stream.put(devices)

    def end_stream(self):
        """Ends the oldest one."""
        self.streams.pop(0).put(None)

    def register(self, version="v1beta1", resource=None):
        """Registers; the error's text where the kubelet refuses."""
        with grpc.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}", (("grpc.use_local_subchannel_pool", 1),)) as channel:
            call = channel.unary_unary("/v1beta1.Registration/Register", dp.RegisterRequest.SerializeToString, dp.Empty.FromString)
            request = dp.RegisterRequest(version=version, endpoint=self.name, resource_name=resource or self.resource)
            try:
                call(request, timeout=30)
                self.calls.append("registered")
            except grpc.RpcError as error:
                return error.details()
        return None

    def stop(self):
        for stream in self.streams:
            stream.put(None)
        self.server.stop(None).wait(10)
        self.threads.shutdown()
