#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs in the guest as root at each boot, from the cidata disk: started by cloud-init, or by the
# init of rdd's own guest. With `environment` it only sets up what the first login needs, because
# an ssh connection keeps its initial environment. Plain POSIX shell, for all distributions and
# for busybox. Its output is the log /var/log/lima-init.log.
#
# A failing script does not stop the others. /run/lima-boot-failures lists the failures when
# /run/lima-boot-done appears, and the host reports them.
set -u
cidata=/mnt/lima-cidata
log=/var/log/lima-init.log
failures=/run/lima-boot-failures
set -a
# shellcheck source=/dev/null
. $cidata/lima.env
# shellcheck source=/dev/null
. $cidata/param.env
set +a

message() {
    echo "rdd boot: $*"
}

# Replaces the lines of a file between rdd's markers.
replace_lines() {
    touch "$1"
    sed -i '/^# rdd begin$/,/^# rdd end$/d' "$1"
    [ ! -s "$2" ] || { echo "# rdd begin" && cat "$2" && echo "# rdd end"; } >>"$1"
}

fail() {
    message "$*"
    echo "$*" >>$failures
}

# run NAME COMMAND…: records a failure with the last lines of output.
run() {
    name=$1
    shift
    message "$name"
    before=0
    [ ! -e $log ] || before=$(wc -c <$log)
    "$@" </dev/null
    code=$?
    if [ $code -ne 0 ]; then
        fail "$name: exit status $code"
        [ ! -e $log ] || tail -c +$((before + 1)) $log | tail -n 6 | sed '/^rdd boot: /d; s/^/  /' >>$failures
    fi
}

mount_shares() {
    [ -s $cidata/mounts ] || return 0
    while IFS='	' read -r kind tag options point; do
        mkdir -p "$point"
        if ! grep -qF " $point " /proc/mounts; then
            mount -t "$kind" -o "$options" "$tag" "$point" || fail "mount of $point ($kind) failed"
        fi
    done <$cidata/mounts
}

certificates() {
    [ -s $cidata/ca-certs.pem ] || [ "$LIMA_CIDATA_CA_REMOVE_DEFAULTS" = true ] || return 0
    for folder in /usr/local/share/ca-certificates /etc/pki/trust/anchors \
        /etc/pki/ca-trust/source/anchors; do
        [ -d $folder ] && break
        folder=
    done
    if [ -z "$folder" ]; then
        fail "this guest has no directory for certificate authorities"
        return 0
    fi
    if [ "$LIMA_CIDATA_CA_REMOVE_DEFAULTS" = true ] && [ -e /etc/ca-certificates.conf ]; then
        sed -i 's/^[^#!]/!&/' /etc/ca-certificates.conf
    fi
    rm -f $folder/rdd-*.crt
    awk -v folder="$folder" '
        /-----BEGIN/ { number++ }
        number { print > (folder "/rdd-" number ".crt") }
    ' $cidata/ca-certs.pem
    if command -v update-ca-certificates >/dev/null; then
        run update-ca-certificates update-ca-certificates
    elif command -v update-ca-trust >/dev/null; then
        run update-ca-trust update-ca-trust
    fi
}

data_file() {
    DATA_PATH= DATA_OWNER= DATA_PERMISSIONS= DATA_OVERWRITE=
    # shellcheck source=/dev/null
    . "$1.env"
    [ "$DATA_OVERWRITE" = true ] || [ ! -e "$DATA_PATH" ] || return 0
    mkdir -p "$(dirname "$DATA_PATH")" &&
        cat "$1" >"$DATA_PATH" &&
        chown "$DATA_OWNER" "$DATA_PATH" &&
        chmod "$DATA_PERMISSIONS" "$DATA_PATH"
}

as_user() {
    # Not in /run, which Debian and Ubuntu mount noexec.
    copy=/var/lib/lima-provision-user
    mkdir -p /var/lib
    cp "$1" $copy
    chmod 0755 $copy
    if command -v loginctl >/dev/null; then
        loginctl enable-linger "$LIMA_CIDATA_USER" 2>/dev/null
    fi
    # The uid of the guest: an image may have had that user before.
    su - "$LIMA_CIDATA_USER" -c "set -a; . /run/lima-param.env; set +a; XDG_RUNTIME_DIR=/run/user/\$(id -u) exec $copy"
    code=$?
    rm -f $copy
    return $code
}

scripts() {
    for script in "$cidata/$1"/*; do
        case $script in
        *\** | *.env) continue ;;
        esac
        run "${script#"$cidata"/}" "$2" "$script"
    done
}

execute() {
    "$1"
}

# Space that lets a full guest start its engine, in which it can be cleaned.
reserve() {
    file=/var/lib/rdd-reserve
    # shellcheck disable=SC2046
    set -- $(df -Pk / | awk 'NR == 2 { print $1, $4 }')
    case ${1-} in /dev/*) ;; *) return 0 ;; esac
    if [ "$2" -lt 65536 ]; then
        rm -f $file
    elif [ "$2" -gt 1048576 ] && [ ! -e $file ] && command -v fallocate >/dev/null; then
        fallocate -l 67108864 $file || rm -f $file
    fi
}

replace_lines /etc/environment $cidata/etc_environment
[ "${1-}" != environment ] || exit 0
rm -f $failures /run/lima-boot-done
replace_lines /etc/hosts $cidata/hosts
if [ -n "$LIMA_CIDATA_TIMEZONE" ] && [ -e "/usr/share/zoneinfo/$LIMA_CIDATA_TIMEZONE" ]; then
    ln -sf "/usr/share/zoneinfo/$LIMA_CIDATA_TIMEZONE" /etc/localtime
fi
if grep -q '^docker:' /etc/group && ! grep -q "^docker:.*[:,]$LIMA_CIDATA_USER\(,\|\$\)" /etc/group; then
    usermod -aG docker "$LIMA_CIDATA_USER"
fi
cp $cidata/param.env /run/lima-param.env
chmod 0644 /run/lima-param.env
# From here on the user can log in; the host waits for this file and compares its content.
cp $cidata/meta-data /run/lima-ssh-ready
chmod 0644 /run/lima-ssh-ready

reserve
mount_shares
certificates
scripts boot execute
scripts provision.dependency execute
scripts provision.data data_file
scripts provision.system execute
scripts provision.user as_user

[ ! -e $failures ] || chmod 0644 $failures
cp $cidata/meta-data /run/lima-boot-done
chmod 0644 /run/lima-boot-done
message "done"
[ ! -e $failures ]
