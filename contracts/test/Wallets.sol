// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

bytes4 constant MAGIC = 0x1626ba7e;
bytes4 constant REFUSED = 0xffffffff;

abstract contract WalletBase {
    error NotAllowed();

    receive() external payable {}

    function execute(address to, uint256 value, bytes calldata data) external payable returns (bytes memory) {
        if (msg.sender != _key()) revert NotAllowed();
        (bool ok, bytes memory out) = to.call{value: value}(data);
        if (!ok) {
            assembly ("memory-safe") {
                revert(add(out, 32), mload(out))
            }
        }
        return out;
    }

    /// Lets the wallet own an agent of the identity registry.
    function onERC721Received(address, address, uint256, bytes calldata) external pure returns (bytes4) {
        return this.onERC721Received.selector;
    }

    /// Only the first 65 bytes count, so that signatures of any greater length can be made.
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        if (signature.length < 65) return REFUSED;
        bytes32 r = bytes32(signature[0:32]);
        bytes32 s = bytes32(signature[32:64]);
        address signer = ecrecover(hash, uint8(signature[64]), r, s);
        return signer != address(0) && signer == _key() ? MAGIC : REFUSED;
    }

    /// Whose signature counts.
    function _key() internal view virtual returns (address);
}

contract Wallet1271 is WalletBase {
    address public immutable owner;

    constructor(address owner_) {
        owner = owner_;
    }

    function _key() internal view override returns (address) {
        return owner;
    }
}

/// Code for an EIP-7702 account: the account's own key signs for it.
contract Delegate7702 is WalletBase {
    function _key() internal view override returns (address) {
        return address(this);
    }
}

contract Wallet1271Rejecting {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        return REFUSED;
    }
}

contract Wallet1271Reverting {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        revert("Wallet1271Reverting: no");
    }
}

contract Wallet1271GasBurner {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        while (true) {}
        return MAGIC;
    }
}

/// The right word, followed by a megabyte that a careless caller would copy.
contract Wallet1271ReturnBomb {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        bytes32 word = MAGIC;
        assembly {
            mstore(0, word)
            return(0, 1000000)
        }
    }
}

/// The right four bytes in a word that is not the padded magic value.
contract Wallet1271BadPadding {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        bytes32 word = bytes32(MAGIC) | bytes32(uint256(0xdeadbeef));
        assembly {
            mstore(0, word)
            return(0, 32)
        }
    }
}

/// The right four bytes and no more.
contract Wallet1271Short {
    function isValidSignature(bytes32, bytes calldata) external pure returns (bytes4) {
        bytes32 word = MAGIC;
        assembly {
            mstore(0, word)
            return(0, 4)
        }
    }
}
