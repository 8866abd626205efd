#!/usr/bin/python3
import subprocess, socket, json, time, os, sys
sys.path.insert(0,'/c')
import statsfd
print(os.uname())
q=subprocess.Popen(["qemu-system-x86_64","-accel","kvm","-smp","2","-m","256M","-nodefaults","-display","none","-kernel","/c/bzImage","-initrd","/c/guest.cpio","-append","console=ttyS0","-serial","file:/tmp/serial","-qmp","unix:/tmp/qmp,server=on,wait=off"]+sys.argv[1:])
t=time.time()
try:
    while not os.path.exists('/tmp/serial') or b'guest runs' not in open('/tmp/serial','rb').read():
        time.sleep(.1)
        if time.time()-t>100 or q.poll() is not None: break
    print('boot',time.time()-t)
    if time.time()-t>100: print(open('/tmp/serial').read())
    s=socket.socket(socket.AF_UNIX); s.connect('/tmp/qmp'); f=s.makefile('rw')
    print(f.readline())
    def x(c,**a):
        print('->',c,a)
        f.write(json.dumps({'execute':c,'arguments':a})+'\n'); f.flush()
        while True:
            l=f.readline()
            print('<-',l[:6000])
            if 'event' not in json.loads(l): return json.loads(l)
    x('qmp_capabilities')
    x('query-version')
    x('query-stats-schemas')
    x('query-stats',target='vm')
    x('query-stats',target='vcpu')
    P=[c['qom-path'] for c in x('query-cpus-fast')['return']]
    x('query-stats',target='vcpu',vcpus=P[1:])
    x('query-stats',target='vcpu',vcpus=['/nosuch'])
    x('query-stats',target='vcpu',vcpus=['/machine'])
    x('query-stats',target='vm',vcpus=P[1:])
    x('query-stats',target='vm',providers=[{'provider':'kvm'}])
    x('query-stats',target='vm',providers=[{'provider':'kvm','names':['remote_tlb_flush']}])
    x('query-stats',target='vm',providers=[{'provider':'kvm','names':['nosuch']}])
    x('query-stats',target='vcpu',providers=[{'provider':'kvm','names':['nosuch']}])
    x('query-stats',target='vm',providers=[{'provider':'nosuch'}])
    x('query-stats',target='vm',providers=[{'provider':'cryptodev'}])
    x('query-stats',target='nosuch')
    x('query-stats')
    x('query-stats',target='vm',providers=[])
    x('query-stats',target='vcpu',vcpus=[])
    x('query-stats-schemas',provider='kvm')
    x('query-stats-schemas',provider='nosuch')
    for c in ('info stats vm','info stats vcpu','info stats nosuch','info stats vm nosuch','info stats vm exits','info stats vm remote_tlb_flush','info stats vm remote_tlb_flush nosuch','info stats vcpu exits kvm'):
        print(x('human-monitor-command',**{'command-line':c})['return'])
    print(statsfd.links(q.pid))
    v=statsfd.Stats(q.pid,'anon_inode:kvm-vcpu:1'); print(v.read()); time.sleep(1); print(v.read())
    x('stop'); print(v.read()); time.sleep(1); print(v.read())
    x('quit')
finally:
    q.kill()
