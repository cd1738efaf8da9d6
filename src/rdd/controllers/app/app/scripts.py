# SPDX-License-Identifier: Apache-2.0
"""The scripts and files of the guest.

The scripts run at each boot. They are constants and read values from files that are written
before them, so no value of a user becomes part of a program. They work on the distribution
made for this purpose, whose units belong to `rancher-desktop.target`, and on any other with
systemd. Every change of a script, even of a comment, changes the template of existing machines.
"""

SETTINGS = "/etc/sysconfig/rancher-desktop"
"""A systemd environment file with the settings of the units in the guest."""

PROXY = "/etc/sysconfig/rancher-desktop-proxy"
DAEMON_JSON = "/etc/docker/daemon.json"
K3S_CONFIG = "/etc/rancher/k3s/config.yaml.d/50-rdd.yaml"
K3S_REGISTRIES = "/etc/rancher/k3s/registries.yaml"
K3S_KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
CERTS_D = "/etc/containerd/certs.d"

PROXY_UNITS = ("docker.service", "containerd.service", "k3s.service")
PROXY_DROP_IN = "[Service]\nEnvironmentFile=-/etc/sysconfig/rancher-desktop-proxy\n"

CONTAINERD_SOCKET = "/run/k3s/containerd/containerd.sock"

SET_UP = """\
#!/bin/sh
# Chooses the engine, and has Kubernetes or not.
set -eu
. /etc/sysconfig/rancher-desktop
target=rancher-desktop.target
wants=/etc/systemd/system/$target.wants
no_k3s=/run/rdd-no-k3s

has() { systemctl cat "$1" >/dev/null 2>&1; }

# Files of settings that are no longer made.
last=/var/lib/rancher-desktop/files
mkdir -p /var/lib/rancher-desktop
for file in $(cat $last 2>/dev/null); do
    case " $SETTINGS_FILES " in *" $file "*) ;; *) rm -f "$file" ;; esac
done
echo "$SETTINGS_FILES" >$last

case $CONTAINER_ENGINE in
containerd) chosen='containerd.service buildkitd.service' other='docker.socket docker.service' ;;
*) chosen='docker.socket docker.service' other='buildkitd.service' ;;
esac

go_on() {
    systemctl daemon-reload
    if has $target; then
        systemctl start --no-block $target
    else
        for unit in $chosen; do
            if has "$unit"; then systemctl start --no-block "$unit"; fi
        done
        if [ "$KUBERNETES_ENABLED" = true ] && has k3s.service; then
            systemctl start --no-block k3s.service
        fi
    fi
}
# Whatever fails, what can run is started.
trap go_on EXIT

if has $target; then systemctl stop $target; fi
for unit in $other; do
    if has "$unit"; then systemctl disable --now "$unit"; fi
done
for unit in $chosen; do
    if has "$unit"; then systemctl enable "$unit"; fi
done

# dockerd reads its settings when it starts, which may have been before they were written.
settings=/etc/docker/daemon.json used=/var/lib/rancher-desktop/daemon.json
if ! has $target && [ "$(cat $settings 2>/dev/null)" != "$(cat $used 2>/dev/null)" ]; then
    systemctl try-restart docker.service || true
    cp $settings $used 2>/dev/null || rm -f $used
fi

rm -f $no_k3s
if [ "$KUBERNETES_ENABLED" != true ]; then
    rm -f "$wants/k3s.service" /etc/rancher/k3s/k3s.yaml
    if has k3s.service; then systemctl disable --now k3s.service; fi
    exit 0
fi

if ! k3s --version 2>/dev/null | grep -qF " $KUBERNETES_RELEASE "; then
    rm -f "$wants/k3s.service"
    systemctl daemon-reload
    # The host fetches and verifies it. The guest fetches nothing.
    if ! [ -x "$KUBERNETES_FILES/k3s" ]; then
        echo "k3s $KUBERNETES_RELEASE is not in $KUBERNETES_FILES of the host" >&2
        touch $no_k3s
        exit 1
    fi
    mkdir -p /usr/local/bin
    cp "$KUBERNETES_FILES/k3s" /usr/local/bin/k3s.new
    chmod 755 /usr/local/bin/k3s.new
    mv /usr/local/bin/k3s.new /usr/local/bin/k3s
    if ! has k3s.service; then
        cat >/etc/systemd/system/k3s.service <<'UNIT'
[Unit]
Description=Lightweight Kubernetes
After=network-online.target
[Service]
Type=notify
EnvironmentFile=-/etc/systemd/system/k3s.service.env
KillMode=process
Delegate=yes
LimitNOFILE=1048576
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
TimeoutStartSec=0
Restart=always
RestartSec=5s
ExecStartPre=-/sbin/modprobe br_netfilter
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/k3s server
UNIT
        systemctl daemon-reload
    fi
fi
if [ "$CONTAINER_ENGINE" = containerd ]; then
    # Once containerd responds. The host loads them into docker.
    for archive in "$KUBERNETES_FILES"/k3s-airgap-images-*; do
        [ -e "$archive" ] || continue
        systemd-run --unit=rdd-k3s-images --collect -p Restart=on-failure -p RestartSec=2 k3s ctr \\
            -a /run/k3s/containerd/containerd.sock -n k8s.io images import "$archive" || true
    done
fi
if [ "$CONTAINER_ENGINE" = containerd ]; then
    options='--container-runtime-endpoint /run/k3s/containerd/containerd.sock'
else
    options=--docker
fi
echo "K3S_CONTAINER_ENGINE_OPTIONS=\\"$options\\"" >/etc/systemd/system/k3s.service.env
mkdir -p "$wants"
ln -sf /etc/systemd/system/k3s.service "$wants/k3s.service"
# The one of the last boot would be taken for the one of this boot.
rm -f /etc/rancher/k3s/k3s.yaml
"""

KEEP_LOGS = """\
#!/bin/sh
# Copies the journals of the guest to the log directory of the host.
set -eu
units=
for unit in lima-init network-setup rancher-desktop-guest-agent rdd-guest wsl-proxy; do
    units="$units -u $unit"
done
# The directory is an argument, not a part of a program: its name may have quotes.
systemd-run --unit=rdd-guest-journal --collect \\
    sh -c 'log=$1 && shift && exec journalctl -f -n all "$@" >"$log" 2>&1' \\
    sh "$PARAM_GUEST_LOG_DIR/guest-journal.log" $units || true
systemd-run --unit=rdd-lima-init-log --collect \\
    sh -c 'exec tail -F -n +1 /var/log/lima-init.log >"$1" 2>&1' \\
    sh "$PARAM_GUEST_LOG_DIR/lima-init.log" || true
"""

WAIT_FOR_KUBERNETES = """\
#!/bin/sh
# k3s has written the file with which it is reached.
set -eu
tries=300
until sudo test -s /etc/rancher/k3s/k3s.yaml; do
    [ ! -e /run/rdd-no-k3s ] || exit 0  # the App reports it
    tries=$((tries - 1))
    [ "$tries" -gt 0 ] || exit 1
    sleep 1
done
"""
